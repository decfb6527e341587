"""Reports for operators: INFO, statistics, memory, slow commands, latency."""
