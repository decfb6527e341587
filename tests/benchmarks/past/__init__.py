"""Benchmarks of reads in the past."""
