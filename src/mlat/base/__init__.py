"""What every room may use: errors, checks, progress, compiled code, files on disk."""
