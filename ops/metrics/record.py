"""A metric of the catalog: name, kind, help, unit, labels and the limit of its series."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import prod
from typing import Final

import resp.commands  # noqa: F401 - fills both registries
from engine.commands.registry import SPECS
from engine.layouts import LAYOUTS
from engine.layouts.records import column_families
from engine.model import NONE, TYPE_NAMES
from engine.store.store import SHARED_CFS
from ingest.reporting.observer import Condition
from resp.catalog.server_registry import SERVER_SPECS
from resp.cluster.bus.link import Loss
from resp.cluster.nodes import NodeHealth
from slotlog.shared.limits import DATABASES

FAMILIES: Final = tuple(sorted({spec.group for spec in SPECS.values()}))
"""The groups of the commands that may stand in an event."""

ERROR_CODES: Final = (
    "ASK",
    "BUSYGROUP",
    "BUSYKEY",
    "CLUSTERDOWN",
    "CROSSSLOT",
    "ERR",
    "EXECABORT",
    "INVALIDOBJ",
    "LOADING",
    "MOVED",
    "NOAUTH",
    "NOPERM",
    "NOPROTO",
    "NOTBUSY",
    "OOM",
    "READONLY",
    "UNBLOCKED",
    "UNKNOWNOUTCOME",
    "WRONGPASS",
    "WRONGTYPE",
)
"""Error codes that have a series of their own; any other counts as `OTHER_CODE`."""

OTHER_CODE: Final = "other"

DUE_KEYS_MAX: Final = 1000
"""Keys that are due are counted up to here, in 0.4 ms."""


class MetricKind(StrEnum):
    """The kinds of Prometheus that are in use."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Label:
    """A label: what bounds it, and how many values it can have (`partition`: as many as the process owns)."""

    bound: str
    values_max: int


LABELS: Final[dict[str, Label]] = {
    "partition": Label("the partitions that the process owns", 0),
    "command": Label("the registered commands, subcommands included", len(SPECS) + len(SERVER_SPECS)),
    "family": Label("the groups of the commands in `docs/commands.md`", len(FAMILIES)),
    "column_family": Label(
        "the column families in `engine/FORMAT.md` and those of the layout",
        len(SHARED_CFS) + max(len(column_families(layout)) for layout in LAYOUTS.values()),
    ),
    "db": Label("the logical databases", DATABASES),
    "type": Label("the types of Redis", len([name for code, name in TYPE_NAMES.items() if code != NONE])),
    "condition": Label("the conditions of a partition", len(Condition)),
    "role": Label("what a process is to a partition: `owner`, `follower`", 2),
    "code": Label("the error codes known to `ops/metrics/record.py`, and `other`", len(ERROR_CODES) + 1),
    "outcome": Label("`nothing` (none of it was appended) and `unknown`", 2),
    "health": Label("how a peer is: `online`, `suspected`, `failed`", len(NodeHealth)),
    "reason": Label("why a message was lost: `unreachable`, `full`, `unconfirmed`, `refused`", len(Loss)),
    "buffer": Label("`query`, `output` and `all` of all clients together", 3),
    "what": Label("what of the keys in memory: `keys`, `elements`, `ranks`, `listings`", 4),
    "version": Label("one, of this process", 1),
    "layout": Label("one, of this process", 1),
    "rules": Label("one, of this process", 1),
    "python": Label("one, of this process", 1),
    "generation": Label("the generations of Python's collector", 3),
}

"""Every label that there is, but the `le` of histograms. None holds a key, a value, an address or a client's name."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric.

    Attributes:
        name: as Prometheus shows it; a counter's ends in `_total`, a histogram's has no suffix.
        kind: counter, gauge or histogram.
        help: one sentence.
        unit: of its value, such as `seconds`; `events` and the like are counts of those.
        labels: names, each a key of `LABELS`.
        source: where and how often it is measured.
        buckets: upper bounds of a histogram's buckets, without the last one, +Inf.
        needs: what has to be there for it: `resp` (`--resp`), `sqlite` (the embedded log), `replay` (`slotlog replay
            --metrics-file` writes it, for node_exporter's textfile collector); empty for nothing.
        of_all: whether all processes of a service give the same value, as it is about their disk, log or machine.
    """

    name: str
    kind: MetricKind
    help: str
    unit: str
    labels: tuple[str, ...]
    source: str
    buckets: tuple[float, ...] = ()
    needs: str = ""
    of_all: bool = False

    @property
    def series_names(self) -> tuple[str, ...]:
        """The names that an expression may use."""
        if self.kind is MetricKind.HISTOGRAM:
            return tuple(f"{self.name}_{suffix}" for suffix in ("bucket", "sum", "count"))
        return (self.name,)

    def series_max(self, partitions: int) -> int:
        """The most series that it can have in a process that owns so many partitions."""
        each = len(self.buckets) + 3 if self.kind is MetricKind.HISTOGRAM else 1
        return each * prod(partitions if label == "partition" else LABELS[label].values_max for label in self.labels)
