"""Tests of `resp/cluster/`."""
