"""Benchmarks of the RESP server, beside valkey-server."""
