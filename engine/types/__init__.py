"""Storage operations on keys, a file or a folder for each type, without grammar or replies."""
