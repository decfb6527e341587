"""Tests of `ingest/membership/`."""
