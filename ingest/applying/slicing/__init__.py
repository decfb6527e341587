"""Runs a long command in slices, so that it holds its partition and not the process."""
