"""A running service: configuration, composition, metrics, health, replay, and the command line."""
