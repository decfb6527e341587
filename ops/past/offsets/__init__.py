"""Finds the offsets of the events that decide what some keys hold, by an index on the disk."""
