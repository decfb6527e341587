"""Tests of `resp/clients/`."""
