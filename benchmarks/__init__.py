"""What slotlog costs: the engine against the same RocksDB work with no engine between, and against Quix Streams.

    make bench                                      everything, about ten minutes
    make bench BENCH_ARGS='--only hset --log kafka'
    make bench BENCH_ARGS=--help

How to read the figures: docs/performance.md.
"""
