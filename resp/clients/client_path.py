"""The way of the usual commands of all clients in C (`engine/native/turns.c`): from bytes to items, and to replies."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from resp.clients.output import FREE_BYTES
from resp.clients.window import AHEAD_BYTES, DATA_BYTES_MAX, ITEMS_MAX, MEAN_BYTES_MAX, PENDING_REPLIES_MAX
from resp.statistics.accounting import RUN_SECONDS
from resp.wire.encode import encode3
from resp.wire.protocol import QUICK_COUNT_MAX
from resp.writes.answers import PENDING_BYTES_MAX, PENDING_EVENTS_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import ModuleType

    from resp.catalog.plans import Plans
    from resp.clients.served import Served
    from resp.statistics.accounting import Accounting
    from resp.statistics.stats import Stats
    from slotlog.clock import ReadClock

_ITEMS_BYTES: Final = 1024 * 1024
"""What the writes in `DATA_BYTES_MAX` may take as items."""

S_contra = TypeVar("S_contra", contravariant=True)


class CountingServer(Protocol):
    """The counters of a server's commands, its partitions, and its read clock; `Shared` says more of each."""

    hot: ModuleType | None
    served: tuple[Served | None, ...]
    plans: Plans
    stats: Stats
    accounting: Accounting
    read_clock: ReadClock


class ClientPath(Protocol[S_contra]):
    """One server's. What is not usual it leaves to Python, untouched."""

    def take(self, session: S_contra, data: bytes, /) -> int:
        """Run what is usual at the beginning of what a client has sent; returns how many bytes that are.

        Where that is all of it, what is there for other clients is sent, too.
        """
        ...

    def send(self, sessions: Iterable[S_contra], /) -> None:
        """Send what is there for each: by `Session.flush`, where that is more than a few small replies to writes."""
        ...


def client_path(server: CountingServer) -> ClientPath[Any] | None:
    """That of a server, as long as it serves the same partitions; None: Python alone does it."""
    if server.hot is None or not server.served or any(one and one.hot_path is None for one in server.served):
        return None
    path: ClientPath[Any] = server.hot.ClientPath(
        server=server,
        stats=server.stats,
        accounting=server.accounting,
        served=server.served,
        by_spelling=server.plans.by_spelling,
        plain_writes=server.plans.plain_writes,
        now_ms=server.read_clock.now_ms,
        monotonic=monotonic,
        encode3=encode3,
        count_max=QUICK_COUNT_MAX,
        items_max=ITEMS_MAX,
        data_bytes_max=DATA_BYTES_MAX,
        pending_replies_max=PENDING_REPLIES_MAX - ITEMS_MAX,
        ahead_bytes=AHEAD_BYTES,
        pending_events_max=PENDING_EVENTS_MAX - ITEMS_MAX,
        pending_bytes_max=PENDING_BYTES_MAX - _ITEMS_BYTES,
        sent_bytes_max=FREE_BYTES,
        mean_bytes_max=MEAN_BYTES_MAX,
        window_max=PENDING_REPLIES_MAX,
        run_seconds=RUN_SECONDS,
    )
    return path
