"""Running a session: from a source to the disk, to standard output and to the page."""
