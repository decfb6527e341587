"""The benchmarks of groups run."""
