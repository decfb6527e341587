"""Limits on what clients use: memory, file descriptors, buffers."""
