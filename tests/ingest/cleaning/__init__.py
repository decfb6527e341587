"""Tests of `ingest/cleaning/`."""
