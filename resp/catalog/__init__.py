"""Usage, keys and categories of every command, known before it runs."""
