"""Benchmarks of streams: rates, growth with their length, and what a trim holds up."""
