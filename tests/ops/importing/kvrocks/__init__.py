"""Tests of directories that are exchanged with Kvrocks, beside a second implementation: there is no real one here."""
