"""Events from files and generated traffic, sent to a log or a server."""
