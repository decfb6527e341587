"""The server for Redis clients. It may use `ingest` and `engine`, never `ops`."""
