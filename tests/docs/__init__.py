"""Tests that the documents are true. `python -m tests.docs` writes their generated parts."""
