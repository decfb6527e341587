"""Verbs to try slotlog, and its version."""
