"""The edge towards the disk: streams and predictions as tables, models, and whole files only."""
