"""Directories for Apache Kvrocks."""
