"""Clients that wait for an element."""
