"""Where a partition's records are kept: the Store protocol, in memory and in RocksDB."""
