"""Gives a service its roles in a group of workers, and hands over what it owns when it ends."""
