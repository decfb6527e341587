"""Several processes that share the partitions of one service, and their supervisor."""
