"""Verbs that rebuild a state and compare two."""
