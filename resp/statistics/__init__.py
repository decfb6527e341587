"""What the server counts and remembers: commands, errors, bytes, keys, slow moments."""
