"""Tests of the bytes of `neokv`; `pytest --layout neokv` alone collects them."""
