"""Redis' numbers, patterns and value formats as functions on bytes, without keys."""
