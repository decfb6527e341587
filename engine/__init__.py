"""The state machine of slotlog: records in, outcomes and RocksDB writes out.

Deterministic: nothing below this package reads a clock, draws randomness, opens a socket or starts a thread.
"""
