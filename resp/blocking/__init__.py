"""Blocked clients, which wait for an element."""
