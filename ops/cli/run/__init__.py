"""Verbs that run a service or wait for one."""
