"""Runs the commands of one client, in order, each by the way that is its own."""
