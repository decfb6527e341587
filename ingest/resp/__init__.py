"""The RESP server: what any Redis client can talk to."""
