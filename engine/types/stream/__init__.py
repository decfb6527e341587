"""Streams: entries, their groups, and what finds them."""
