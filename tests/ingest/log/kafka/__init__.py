"""Tests of `ingest/log/kafka/`."""
