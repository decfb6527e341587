"""Tests of directories for Kvrocks, by a second reader of the format: there is no real one here."""
