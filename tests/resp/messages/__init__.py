"""Tests of `resp/messages/`."""
