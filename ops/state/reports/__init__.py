"""Tells how far a state is behind its log, and what it takes on disk."""
