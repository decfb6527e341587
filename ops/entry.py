"""The console script `slotlog`. An environment for clients alone has no server: then it says what to install."""

from __future__ import annotations

import sys
from typing import Final

_OURS: Final = frozenset({"engine", "ingest", "ops", "resp", "slotlog"})


def main() -> None:
    """Run the command line."""
    try:
        from ops.cli import main as run  # noqa: PLC0415 - what it imports may not be there

        run()
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] in _OURS:
            raise
        sys.exit(f"slotlog: {error.name} is not installed. The server needs more: pip install 'slotlog[server]'")
