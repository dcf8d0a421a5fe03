"""What every page needs: who may ask, how many connections, a server, files of a page."""
