"""Tests of `resp/acl/`."""
