"""Tests of the bytes of the `camellia` layouts."""
