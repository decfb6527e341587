"""Hashes, and fields with a time to live."""
