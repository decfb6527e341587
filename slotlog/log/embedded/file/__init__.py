"""The SQLite file: connections to it, its tables, the checksums of their rows, and upgrades of older files."""
