"""From a source through a session to the disk, to standard output and to the page."""
