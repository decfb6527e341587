"""Event codec, logs, producer, consumer, dead letters. It may use `engine`, never `resp` or `ops`."""
