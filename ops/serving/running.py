"""The protocol of a running service, for its parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from ingest.applying.consumer import Consumer
from ops.config import Settings
from ops.metrics import Metrics
from ops.serving.past import PastProcess
from ops.snapshots.report import SnapshotReport
from resp.server import Server
from slotlog.log import Log


class Running(Protocol):
    """A service, as its status and the RESP server's host see it."""

    @property
    def settings(self) -> Settings:
        """Its settings."""
        ...

    @property
    def log(self) -> Log:
        """Its log."""
        ...

    @property
    def consumer(self) -> Consumer:
        """What applies its partitions."""
        ...

    @property
    def metrics(self) -> Metrics:
        """Its metrics."""
        ...

    @property
    def reports(self) -> Mapping[int, SnapshotReport]:
        """What is known of each partition's snapshots."""
        ...

    @property
    def past(self) -> PastProcess:
        """What answers about the past."""
        ...

    @property
    def resp(self) -> Server | None:
        """The server for Redis clients; None: it has none."""
        ...

    def stop(self) -> None:
        """End it, as a signal does."""
        ...
