"""Messages to clients: Pub/Sub, keyspace notifications, MONITOR."""
