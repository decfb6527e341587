"""Tests of `ingest`."""
