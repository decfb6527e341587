"""Strings, and their bits."""
