"""The partitions of a process: their conditions, their roles, and who owns them."""
