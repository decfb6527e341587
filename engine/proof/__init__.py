"""Reads a whole state: its live keys, their digest, and an audit."""
