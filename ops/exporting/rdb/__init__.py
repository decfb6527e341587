"""Exports RDB files for Redis and Valkey."""
