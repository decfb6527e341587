"""Benchmarks: the engine against RocksDB alone and against Quix Streams, and the server against valkey-server.

    make bench                                      everything, about ten minutes
    make bench BENCH_ARGS='--only hset --log kafka'
    make bench BENCH_ARGS=--help

How to read the figures: docs/performance.md.
"""
