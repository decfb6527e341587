"""The repository tests itself: imports, docstrings, sizes, dead files, the lock."""
