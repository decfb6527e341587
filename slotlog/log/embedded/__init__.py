"""The embedded log: one SQLite file, with a checksum for each record."""
