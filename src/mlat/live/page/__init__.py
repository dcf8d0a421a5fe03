"""A page to watch a session: a hub that collects what happens, and a server."""
