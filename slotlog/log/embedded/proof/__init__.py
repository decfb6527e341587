"""Proves that nothing of the log is missing or changed: the mark, checks against a state, scans of the file."""
