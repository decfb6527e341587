"""Unions, intersections and differences of sets and sorted sets."""
