"""Verbs that keep the log and the state: backups and snapshots."""
