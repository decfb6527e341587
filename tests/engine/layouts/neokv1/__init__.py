"""Tests of the bytes of `neokv1`; `pytest --layout neokv1` alone collects them."""
