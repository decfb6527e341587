"""Reads of a whole state: its live keys, their digest, and the audit of every stored rule."""
