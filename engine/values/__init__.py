"""Redis' numbers, patterns and value formats: bytes in, bytes out. Nothing here knows a key."""
