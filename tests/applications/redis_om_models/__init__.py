"""Redis OM: models in hashes."""
