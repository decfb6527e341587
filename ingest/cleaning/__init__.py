"""Cleaning beside a running service: what is due, dead, deleted as a range, or too old to keep."""
