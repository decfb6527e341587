"""Exports: the keys of a state become files that other servers load."""
