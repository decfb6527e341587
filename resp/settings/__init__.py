"""Parameters: what is set before the start, and what CONFIG changes while the server runs."""
