"""The benchmarks at their smallest size, and whether they would notice a result that is worth nothing."""
