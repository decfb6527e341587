"""Directories of Apache Kvrocks, read for an import."""
