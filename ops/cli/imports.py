"""Imports what takes long to import in a quicker way, before anything else does."""

from __future__ import annotations

import sys


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
