"""Errors of snapshots."""

from __future__ import annotations


class SnapshotRefusedError(ValueError):
    """A snapshot cannot be used; the message says why."""


class SnapshotStoreError(OSError):
    """The store of the snapshots cannot be read or written; the message names it and shows no credentials."""


class ChildEndedError(RuntimeError):
    """The process that did the work was ended from outside."""
