"""Every step and prediction on disk, and how a session goes on from there."""
