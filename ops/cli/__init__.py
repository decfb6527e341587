"""The `slotlog` command line: one file per verb."""

from __future__ import annotations

from ops.cli.app import app, main

__all__ = ["app", "main"]
