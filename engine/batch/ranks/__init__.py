"""Rank counts of large sorted sets."""
