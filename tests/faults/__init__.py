"""Faults that a running service must survive, with real processes and a real broker."""
