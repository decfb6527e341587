"""Commands in a partition that moves between workers of a group: they wait until it is served again.

The old owner keeps them until the new one serves the partition, and then sends them on; the new one keeps those that
come too early. So a client meets MOVED, and no error that it may not know, as long as that takes no longer than
`hold_seconds`; a client's own time-outs are longer than that. Afterwards it hears what is so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from time import monotonic
from typing import TYPE_CHECKING, Final, Protocol

from slotlog.shared.slots import partition_of, slot

if TYPE_CHECKING:
    from resp.cluster.bus import Bus
    from resp.cluster.topology import ClusterMap
    from resp.settings.startup import RespSettings
    from resp.writes.write_pipeline import WritePipeline

_LOOK_SECONDS: Final = 0.02


class Held(Protocol):
    """A client whose command may have to wait."""

    def resume(self) -> None:
        """Go on with the commands that wait."""
        ...


class Holder(Protocol):
    """The worker whose clients these are.

    Attributes:
        settings: how long a command waits at most.
        partitions: of the topic.
        pipelines: of the partitions of this worker.
        cluster: which worker has which slots.
        bus: what the others say of themselves.
    """

    settings: RespSettings
    partitions: int
    pipelines: dict[int, WritePipeline]
    cluster: ClusterMap
    bus: Bus

    def look_at_time(self) -> None:
        """Serve nobody any more where the time is over for which this worker may own anything."""
        ...


class Holding:
    """The commands of one server that wait for their partition.

    Args:
        server: whose clients these are.
    """

    def __init__(self, server: Holder) -> None:
        self._server = server
        self._seconds = server.settings.hold_seconds if server.settings.partitions > 1 else 0.0
        self._until: dict[Held, float] = {}
        self._waiting: dict[int, dict[Held, None]] = {}
        self._over: Held | None = None
        self._looks = False

    @property
    def count(self) -> int:
        """How many clients wait."""
        return len(self._until)

    def holds(self, session: Held, keys: Sequence[bytes]) -> bool:
        """Whether a command with these keys has to wait, as nobody serves them now, and somebody soon will.

        The session goes on with it when that is so, or when it has waited for long enough.
        """
        if not self._seconds or not keys or session is self._over:
            return False
        number = slot(keys[0])
        partition = partition_of(number, self._server.partitions)
        if not self._is_coming(partition) or any(slot(key) != number for key in keys):
            return False
        self._until.setdefault(session, monotonic() + self._seconds)
        self._waiting.setdefault(partition, {})[session] = None
        self._look_soon()
        return True

    def keeps(self, session: Held) -> bool:
        """Whether a command of the session waits."""
        return session in self._until

    def forget(self, session: Held) -> None:
        """The session is gone."""
        if self._until.pop(session, None) is not None:
            for sessions in self._waiting.values():
                sessions.pop(session, None)

    def end(self) -> None:
        """The server ends: nobody waits any more."""
        self._seconds = 0.0
        self._look()

    # ------------------------------------------------------------------ inside

    def _is_coming(self, partition: int) -> bool:
        server = self._server
        pipeline = server.pipelines.get(partition)
        if pipeline is not None:
            return pipeline.is_coming
        owner = server.cluster.owner_node(partition)
        if owner is None or owner is server.cluster.me:  # nobody has told yet, or the group has a moment ago
            return True
        return server.bus.peers.is_taking(owner, partition)

    def _look_soon(self) -> None:
        if not self._looks:
            self._looks = True
            asyncio.get_running_loop().call_later(_LOOK_SECONDS, self._look_again)

    def _look_again(self) -> None:
        self._looks = False
        self._look()
        if self._waiting:
            self._look_soon()

    def _look(self) -> None:
        """Let those go on whose partition is served, or whose time is over."""
        self._server.look_at_time()
        now = monotonic()
        for partition in list(self._waiting):
            sessions = self._waiting.pop(partition)
            is_over = not (self._seconds and self._is_coming(partition))
            staying = {} if is_over else {each: None for each in sessions if self._until.get(each, 0.0) > now}
            if staying:
                self._waiting[partition] = staying
            for session in sessions:
                if session not in staying:
                    self._until.pop(session, None)
                    self._go_on(session, is_over=is_over)

    def _go_on(self, session: Held, *, is_over: bool) -> None:
        self._over = None if is_over else session
        try:
            session.resume()
        finally:
            self._over = None
