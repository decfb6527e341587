"""Measurements of layouts beside each other."""
