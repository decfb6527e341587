"""Reads directories that Phase 1 of NeoKV wrote."""
