"""Logs that were recorded once, and what a replay of each of them has to give for ever: see `tests.golden.corpus`."""
