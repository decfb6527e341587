"""Cleans beside a running service: expired keys, dead collections, deleted ranges, old dead letters."""
