"""A running service: its composition, health, HTTP, status and log lines."""
