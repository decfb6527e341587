"""Statistics of the server: commands, errors, bytes, keys, slow moments."""
