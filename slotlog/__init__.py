"""The client library: commands in, durable events out, over Kafka or an embedded log."""
