"""Where a partition's records are stored: the Store protocol, in memory and in RocksDB."""
