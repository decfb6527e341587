"""One client: its connection, and its commands and replies in order."""
