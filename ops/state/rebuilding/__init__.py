"""Rebuilds states: replays the log, converts to another layout, puts a new state in place of the old."""
