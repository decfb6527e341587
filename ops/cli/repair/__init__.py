"""Verbs that look after a state and its log."""
