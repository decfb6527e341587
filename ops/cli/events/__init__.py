"""Verbs that send events and read the state."""
