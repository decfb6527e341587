"""Walrus: models with indexes, and its containers."""
