"""Proves that a state is what its log says, and that the log is what it was."""
