"""Tells the clients of a RESP server what its consumer and cleaner have done."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from engine.apply.records import Applied, Published
from engine.cleaning.sweep import Swept
from ingest.reporting.observer import Cleaned, Condition

if TYPE_CHECKING:
    from resp.clients.session import Session
    from resp.clients.shared import Shared

_FLUSHES: Final = frozenset({b"FLUSHALL", b"FLUSHDB"})


class ServerObserver:
    """An `ingest.reporting.observer.Observer`, and what the cleaner asks and tells.

    Args:
        server: whose clients are told.
    """

    def __init__(self, server: Shared[Session]) -> None:
        self._server = server

    def applied(self, partition: int, applied: Applied, value_bytes: int, seconds: float) -> None:
        """Handle a committed batch: serve clients that wait for its keys, and notify listeners.

        A store that failed behind answers may have lost what listeners were told of. They do not hear it once more when
        the log has given it again.
        """
        server = self._server
        pipeline = server.pipelines.get(partition) or server.leaving.get(partition)
        if pipeline is None:  # this worker does not own it
            if replica := server.replicas.get(partition):
                replica.moved()
            return
        pipeline.moved()
        if partition in server.loading and pipeline.machine.next_offset >= pipeline.ready_offset:
            del server.loading[partition]
            server.refresh()
        is_swap = b"SWAPDB" in applied.commands
        if pipeline.machine.has_changed or is_swap:
            server.stats.count_changes(applied)
        if is_swap or not _FLUSHES.isdisjoint(applied.commands):  # these say of no key that it was modified
            server.blocked.look_again()
        untold = applied.since(pipeline.told_offset)
        pipeline.told_offset = max(pipeline.told_offset, applied.next_offset)
        if server.tracking.any:
            server.tracking.on_applied(partition, untold)
        if applied.script_calls is not None:
            server.accounting.called_by_scripts(applied.script_calls)
        if untold.published:
            self._publish(untold.published)
        if untold.modified:
            server.stats.expired_keys += len(untold.expired)
            if server.notifications.flags:
                server.notifications.on_applied(untold)
        if applied.modified and server.blocked.any:  # also those that were told: they look at what is there now
            server.blocked.on_modified(pipeline, applied.modified)

    def _publish(self, published: Iterable[Published]) -> None:
        """Send what scripts have published."""
        server = self._server
        for _, channel, message, on_shard in published:
            if on_shard:
                server.pubsub.publish_to_shard(channel, message)
            else:
                server.bus.publish(channel, message)
                server.pubsub.publish(channel, message)

    def condition(self, partition: int, condition: Condition, reason: str) -> None:
        """Handle a partition that runs again or is set aside."""
        server = self._server
        if partition in server.pipelines:
            server.witness()
            if server.pipelines[partition].look_back():
                server.loading[partition] = None
            server.refresh()
            self._follow_condition(partition, condition)
            if condition is Condition.RUNNING:
                server.pipelines[partition].local_writes.behind.write_soon()
                server.blocked.look_again()
        elif partition in server.replicas:
            server.witness()

    def _follow_condition(self, partition: int, condition: Condition) -> None:
        """Let those who track know that a partition was closed, or is another one now."""
        server = self._server
        worker = server.pipelines[partition].owned.worker
        server.tracking.on_condition(partition, is_stopped=condition is Condition.STOPPED)
        if worker.is_open:
            server.tracking.follow(partition, worker.machine.next_offset)

    def lag(self, partition: int, events: int, seconds: float) -> None:
        """INFO shows it."""
        if partition in self._server.pipelines:
            self._server.stats.lag_events[partition] = events

    def cleaned(self, partition: int, cleaned: Cleaned) -> None:
        """INFO shows it."""
        self._server.stats.count_cleaned(cleaned)

    @property
    def may_expire(self) -> bool:
        """Whether keys may go by themselves now."""
        return self._server.active_expire and not self._server.pause.is_on

    def swept(self, partition: int, swept: Swept) -> None:
        """Handle keys and fields that expired: notify listeners, who waits, and clients that may have cached them."""
        server = self._server
        if partition not in server.pipelines:
            return
        server.notifications.on_swept(swept)
        for db, key in swept.keys if server.blocked.any else ():
            server.blocked.reading.serve((partition, db, key))
        if server.tracking.any:
            server.tracking.on_swept(swept)
