"""Shows a running service over HTTP: its status page, a key's history, health and metrics."""
