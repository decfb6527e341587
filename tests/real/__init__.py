"""Real servers for the tests: an Apache Kafka broker and a Redis-compatible oracle, started by the session."""
