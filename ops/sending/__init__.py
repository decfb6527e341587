"""Sends events from files, or generated traffic, to a log or a server."""
