"""Benchmarks of the engine: beside RocksDB alone, and beside Quix Streams."""
