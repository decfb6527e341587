"""`python -m benchmarks.metrics.unmeasured serve …`: slotlog that counts nothing for `/metrics`, for comparison."""

from __future__ import annotations

import asyncio

from ops.cli import app
from ops.metrics import Metrics
from resp import server as _server  # noqa: F401 - everything is imported before it is exchanged
from slotlog.distribution import Distribution


def _nothing(*_arguments: object) -> None:
    """In the place of whatever counts."""


async def _wait(_self: Metrics) -> None:
    await asyncio.Event().wait()


if __name__ == "__main__":
    Metrics.applied = _nothing  # type: ignore[method-assign, assignment]
    Metrics.run = _wait  # type: ignore[method-assign, assignment]
    Distribution.add = _nothing  # type: ignore[method-assign, assignment]
    app()
