"""Benchmarks of cleaning, and a soak test of the disk space."""
