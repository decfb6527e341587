"""Benchmarks of groups of workers."""
