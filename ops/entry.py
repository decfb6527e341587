"""The console script `slotlog`. An environment for clients alone has no server: then it says what to install."""

from __future__ import annotations

import os
import sys
from typing import Final

_OURS: Final = frozenset({"engine", "ingest", "ops", "resp", "slotlog"})


def main() -> None:
    """Run the command line."""
    _fill_standard_streams()
    try:
        from ops.cli import main as run  # noqa: PLC0415 - what it imports may not be there

        run()
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] in _OURS:
            raise
        sys.exit(f"slotlog: {error.name} is not installed. The server needs more: pip install 'slotlog[server]'")


def _fill_standard_streams() -> None:
    """Let those that a caller has closed (`>&-`) be /dev/null: else a file would get their numbers, and their lines."""
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest number that is free: this one
        if getattr(sys, name) is None:
            setattr(sys, name, open(descriptor, "w" if descriptor else "r", encoding="utf-8", closefd=False))  # noqa: SIM115 - for ever
