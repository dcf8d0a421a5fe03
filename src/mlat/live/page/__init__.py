"""A page to watch a session: the hub it hears from, and the server."""
