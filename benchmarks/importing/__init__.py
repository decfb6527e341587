"""Measurements of imports."""
