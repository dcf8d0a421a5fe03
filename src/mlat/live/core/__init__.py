"""The pure step of a live session, its state, and policies for missing, late and repeated steps."""
