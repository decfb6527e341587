"""What operators ask of a server: INFO, statistics, memory, slow commands, latency."""
