"""What becomes of steps that are missing, late, doubled, or of a channel that stands still."""
