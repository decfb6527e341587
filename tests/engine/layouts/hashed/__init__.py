"""Tests of what `hashed` cannot hold; `pytest --layout hashed` alone collects them."""
