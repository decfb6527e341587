"""The `slotlog` command line: one file for each verb, in a folder for each group of the help."""

from __future__ import annotations

from ops.cli.app import app, main

__all__ = ["app", "main"]
