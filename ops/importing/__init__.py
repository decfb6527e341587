"""Imports: keys from elsewhere become events in the log."""
