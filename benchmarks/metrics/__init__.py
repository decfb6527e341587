"""Benchmarks of what metrics cost."""
