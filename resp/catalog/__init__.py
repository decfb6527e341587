"""What is known of every command before it runs: usage, keys, categories, keyspace events."""
