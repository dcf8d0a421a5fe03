"""The labelling page: its routes and files."""
