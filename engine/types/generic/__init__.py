"""Verbs for keys of any type and for the keyspace: copies, dumps, scans, watches."""
