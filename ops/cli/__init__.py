"""The `slotlog` command line: one file for each verb, in a folder for each group of the help."""

from __future__ import annotations

import sys

from ops.cli.imports import INTERRUPTED, import_structlog

try:
    import_structlog()

    from ops.cli.app import app, main
except KeyboardInterrupt:  # most of the first second goes by here
    sys.exit(INTERRUPTED)

__all__ = ["app", "main"]
