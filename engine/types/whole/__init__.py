"""Verbs for keys of any type, and those that know no key: copies, dumps, scans, watches."""
