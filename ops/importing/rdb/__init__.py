"""Imports RDB files of Redis and Valkey."""
