"""Applications that are written for Redis, as their authors ship them, on slotlog.

For each there is a small program of an ordinary user of it (`*/__main__.py`), which runs in the virtual environment of
the applications and is told no more than a URL. It does the same on the oracle, which proves the program itself; what
slotlog lacks stands beside what the oracle does (`LACKS`), so that neither can change unseen.
"""
