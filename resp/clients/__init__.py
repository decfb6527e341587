"""One client: its connection, its commands in order, its replies in order."""
