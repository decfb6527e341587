"""The column families that every layout shares: how each is written and read."""
