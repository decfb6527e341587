"""Storage operations on keys, one file for each type, without grammar or replies."""
