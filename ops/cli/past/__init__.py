"""Verbs that look into the past: reads as of a moment, and a key's history."""
