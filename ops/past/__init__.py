"""Looks into the past: states as they were, and what each event did to a key."""
