"""Histories of concurrent clients, checked for one order of operations that explains every reply."""
