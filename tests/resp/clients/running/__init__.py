"""Tests of `resp/clients/running/`."""
