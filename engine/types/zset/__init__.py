"""Sorted sets: members, and their ranges."""
