"""Tests that what the documents say is so; `python -m tests.docs` writes the parts of them that come from the code."""
