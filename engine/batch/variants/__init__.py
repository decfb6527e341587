"""Batches over layouts that write without counts, or have sorted sets in an index."""
