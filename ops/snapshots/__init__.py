"""Snapshots of partitions' states: taken, kept in a directory or an S3 store, verified, restored."""
