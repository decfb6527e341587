"""Serves while the program is imported: a quicker import, and the exit code of one that was broken off."""

from __future__ import annotations

import sys
from typing import Final

INTERRUPTED: Final = 130
"""The exit code of a verb that Ctrl-C has ended, as shells give it to what SIGINT ends."""


def import_structlog() -> None:
    """Import structlog without rich, which it would draw tracebacks with: `ops.logging` writes them itself.

    With rich the program takes half as long again to start. Who shows progress imports rich by itself.
    """
    if "rich" in sys.modules:
        return
    sys.modules["rich"] = None  # type: ignore[assignment] # as if it were not installed
    try:
        import structlog  # noqa: F401
    finally:
        del sys.modules["rich"]
