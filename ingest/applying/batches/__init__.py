"""Applies one partition's records to its store, a batch at a time."""
