"""A running service: composition, health, HTTP, status and log lines."""
