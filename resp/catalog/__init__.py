"""Facts about every command: usage, keys, categories, keyspace events."""
