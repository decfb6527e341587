"""Import from a running server: Redis, Valkey, or what speaks their protocol."""
