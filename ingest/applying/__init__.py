"""Applies the log to the state: the consumer, and a worker for each partition."""
