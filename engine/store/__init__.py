"""Stores of a partition's records: the Store protocol, in memory and in RocksDB."""
