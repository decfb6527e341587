"""Benchmarks of reads in the past and of histories."""
