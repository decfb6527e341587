"""Removal of what no reply can reach: keys that are due, dead collections, forgotten ids."""
