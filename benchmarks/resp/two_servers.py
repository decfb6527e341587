"""Starts slotlog and valkey-server side by side, and prints what was measured of both."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.wire.servers import RespServer, slotlog, valkey


@dataclass(frozen=True, slots=True)
class Figures:
    """One line of output: figures of slotlog, and those of valkey-server by the same names with `valkey_` before."""

    name: str
    figures: dict[str, float]

    def line(self) -> str:
        """The result as JSON."""
        return json.dumps({"name": self.name, **self.figures})


@contextmanager
def two_servers() -> Iterator[dict[str, RespServer]]:
    """Each server on an empty directory of its own, by what its figures' names begin with."""
    with ExitStack() as stack:
        ours, theirs = (Path(stack.enter_context(TemporaryDirectory(prefix="slotlog-bench-"))) for _ in range(2))
        yield {"": stack.enter_context(slotlog(ours)), "valkey_": stack.enter_context(valkey(theirs))}
