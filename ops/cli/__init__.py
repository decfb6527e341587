"""The `slotlog` command line: one file for each verb, in a folder for each group of the help."""

from __future__ import annotations

from ops.cli.imports import import_structlog

import_structlog()

from ops.cli.app import app, main  # noqa: E402 - the modules that it imports would import structlog

__all__ = ["app", "main"]
