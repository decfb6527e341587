"""The RESP server: its clients, the owners of keys, and what all sessions share."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any

import structlog

import resp.commands  # noqa: F401 - fills the registry
from engine.apply.records import Applied
from engine.cleaning.sweep import Swept
from engine.commands.registry import Spec
from engine.errors import CROSS_SLOT, CommandError, DueError
from engine.values.replies import Reply
from engine.values.slots import partition_of, slot
from ingest.applying.owned_partition import OwnedPartition
from ingest.applying.slices import Slices
from ingest.reporting.observer import Cleaned, Condition
from ingest.reporting.rate_limited import RateLimitedLog
from resp.acl import Acl
from resp.blocking.blocked_clients import Blocked
from resp.blocking.pause import Pause
from resp.catalog.plans import Plans
from resp.clients.authorization import admission, cut_off
from resp.clients.connection import Connection
from resp.clients.entrances import ENTRANCES
from resp.clients.multi import unwatch
from resp.clients.session import Session
from resp.cluster.all_partitions import AllPartitions
from resp.cluster.bus import Bus
from resp.cluster.topology import map_of
from resp.host import Host
from resp.messages.monitor import Monitors
from resp.messages.notifications import Notifications
from resp.messages.pubsub import PubSub
from resp.resources.descriptors import check_room, make_room
from resp.resources.eviction import evict
from resp.resources.heap import Heap
from resp.resources.shortage import Shortage
from resp.settings.config import Config, start_values
from resp.settings.startup import Address, RespSettings
from resp.statistics.accounting import Accounting
from resp.statistics.latency import Latency
from resp.statistics.slowlog import SlowLog
from resp.statistics.stats import SAMPLE_SECONDS, Stats
from resp.wire.tls import server_context
from resp.writes.stopping import finish
from resp.writes.write_pipeline import WritePipeline
from slotlog.clock import ReadClock
from slotlog.log import Log

logger = structlog.get_logger(__name__)


class Server:
    """The RESP server of one worker; also an `ingest.reporting.observer.Observer` of what its consumer applies.

    Args:
        settings: addresses and secrets.
        host: the process around it.
        log: where writes go; started and closed by whoever started it.

    Attributes:
        sessions: connected clients by id, in the order in which they came.
        pipelines: the write pipelines of the owned partitions.
        ready: sessions that have something to be sent, in the order in which it came up.
        slices: in which commands run; those of the partitions.
        evaluate: the one machine's `evaluate` while every plain read can be answered by it; None otherwise.
        wall_ms: the read clock as of the last bytes from any client, or the last round of what happens by time.
        accounting: is told how each command ended.
        active_expire: whether keys may go by themselves (DEBUG SET-ACTIVE-EXPIRE).
    """

    def __init__(self, settings: RespSettings, host: Host, log: Log) -> None:
        self.settings = settings
        self.host = host
        self.log = log
        self.config = Config(start_values(settings), host.settings)
        self.partitions = settings.partitions
        self.clustered = settings.partitions > 1
        self.acl = Acl(settings.acl_file, settings.password)
        self.sessions: dict[int, Session] = {}
        self.pipelines: dict[int, WritePipeline] = {}
        self.ready: dict[Session, None] = {}
        self.slices = Slices()
        self.plans, self.stats = Plans(), Stats()
        self.pubsub = PubSub()
        self.monitors, self.slowlog, self.latency = Monitors(), SlowLog(), Latency()
        self.accounting = Accounting(self.config, self.stats, self.slowlog, self.latency)
        self.notifications = Notifications(self.pubsub)
        self.blocked = Blocked(self)
        self.pause, self.shortage = Pause(self.refresh), Shortage(self.config, self.refresh)
        self.all_partitions = AllPartitions(self.pipelines, self.partitions)
        self.cluster = map_of(settings, 0)
        self.bus, self.heap, self.refusals = Bus(self), Heap(), RateLimitedLog()
        self.run_id, self.read_clock = secrets.token_hex(20), ReadClock()
        self.started_ms = self.wall_ms = self.read_clock.latest_ms
        self.port = self.tls_port = self._last_id = 0
        self.active_expire = True
        self.evaluate: Callable[[Spec, list[bytes], int, int], Reply] | None = None
        self._crowd: dict[Session, None] = {}
        self._loading: dict[int, None] = {}
        self._listeners: list[asyncio.Server] = []
        self._cron: asyncio.Task[None] | None = None
        self._follow_config()

    # ------------------------------------------------------------------ life

    def attach(self, owned_partitions: Mapping[int, OwnedPartition]) -> None:
        """Take over the writes of these partitions, before their consumer opens them."""
        for partition, owned in owned_partitions.items():
            pipeline = WritePipeline(partition, owned, self.log, self.flush, self.read_clock)
            self.pipelines[partition] = owned.local_appends = pipeline
            self.slices = owned.worker.gate.slices
        self.slices.entrances |= ENTRANCES

    async def start(self) -> None:
        """Listen.

        Raises:
            OSError: an address cannot be listened on.
            ValueError: the TLS files are no good.
        """
        settings = self.settings
        make_room(self.config)
        self.port = await self._listen(settings.address)
        if settings.tls_address is not None:
            context = server_context(settings)
            self.tls_port = await self._listen(
                settings.tls_address, ssl=context, ssl_handshake_timeout=settings.handshake_seconds
            )
        self.cluster = map_of(settings, self.port)
        self.bus.start()
        self.config.start("port", str(self.port))
        self.config.start("tls-port", str(self.tls_port))
        self.stats.start()
        self._cron = asyncio.create_task(self._run_cron())
        logger.info("resp", port=self.port, tls_port=self.tls_port, clustered=self.clustered)

    async def open(self) -> None:
        """After the consumer has opened: answer LOADING until everything is applied that is in the log now."""
        for pipeline in self.pipelines.values():
            pipeline.ready_offset = await self.log.end_offset(pipeline.partition)
            self._loading[pipeline.partition] = None
        self.refresh()

    async def drain(self) -> None:
        """Take no more clients and no more writes, and answer those under way, and reads that are suspended."""
        self._stop_taking()
        self.blocked.end()
        pipelines, sessions = self.pipelines.values(), self.sessions.values()
        await finish(
            lambda: any(each.pending_events for each in pipelines) or any(each.inbox.is_suspended for each in sessions)
        )

    async def close(self) -> None:
        """Close every connection."""
        self._stop_taking()
        if self._cron is not None:
            self._cron.cancel()
        await self.bus.close()
        for pipeline in self.pipelines.values():
            pipeline.close("slotlog is shutting down")
        for session in list(self.sessions.values()):
            session.close("the server stops")
        for listener in self._listeners:
            await listener.wait_closed()

    def _stop_taking(self) -> None:
        """From now on there are no new clients, and no command takes the short way or is a write."""
        for listener in self._listeners:
            listener.close()
        for pipeline in self.pipelines.values():
            pipeline.closing = True
        self.refresh()

    async def _listen(self, address: Address, **options: Any) -> int:
        loop = asyncio.get_running_loop()
        listener = await loop.create_server(lambda: Connection(self), *address, backlog=511, **options)  # as Redis
        self._listeners.append(listener)
        port: int = listener.sockets[0].getsockname()[1]
        return port

    async def _run_cron(self) -> None:
        """What happens by time alone, ten times a second as in Redis."""
        while True:
            await asyncio.sleep(SAMPLE_SECONDS)
            try:
                self.wall_ms = self.read_clock.now_ms()
                self.stats.sample(monotonic(), self.plans.calls)
                cut_off(self)
                evict(self.sessions.values(), self.config, self.stats)
                self.shortage.look()
                self.heap.look()
                self.pause.end_if_due()
                self.flush()
            except Exception:
                logger.exception("resp_cron_failed")

    # ------------------------------------------------------------------ sessions

    def admit(self, transport: asyncio.Transport) -> Session | CommandError:
        """A session for a new connection, or why there is none."""
        self.stats.connections_received += 1
        refusal = admission(self, transport)
        if refusal is not None:
            self.stats.rejected_connections += 1
            return refusal
        self._last_id += 1
        session = Session(self, transport, self._last_id)
        self.sessions[session.id] = session
        return session

    def forget(self, session: Session) -> None:
        """The session's connection is closed."""
        self.sessions.pop(session.id, None)
        self.ready.pop(session, None)
        self._crowd.pop(session, None)
        self.pubsub.forget(session)
        self.monitors.forget(session)
        self.blocked.forget(session)
        self.pause.forget(session)
        unwatch(session)

    def flush(self) -> None:
        """Send what has come up for the sessions."""
        while self.ready:
            ready, self.ready = self.ready, {}
            for session in ready:
                session.flush()
        if self._crowd and not any(pipeline.crowded for pipeline in self.pipelines.values()):
            crowd, self._crowd = self._crowd, {}
            for session in crowd:
                session.resume()

    def refresh(self) -> None:
        """A partition, or a user's rights, changed: which commands may take the short way is to be found out anew."""
        self.evaluate = None
        held = self.pause.is_on or self.monitors.any or self.shortage.is_on
        if not (held or self.clustered) and len(self.pipelines) == 1:
            pipeline = self.pipelines[0]
            if pipeline.refusal(write=True) is None and pipeline.owned.condition is Condition.RUNNING:
                self.evaluate = pipeline.machine.evaluate
        for session in self.sessions.values():
            session.refresh()

    def is_crowded(self, session: Session, pipeline: WritePipeline) -> bool:
        """Whether too much waits in `pipeline`; then the session goes on when there is room."""
        if pipeline.crowded:
            self._crowd[session] = None
            return True
        return False

    # ------------------------------------------------------------------ keys

    def pipeline_of(self, keys: list[bytes]) -> WritePipeline:
        """The partition of these keys.

        Raises:
            CommandError: CROSSSLOT, or MOVED to whoever has them.
        """
        if not self.clustered:
            return self.pipelines[0]
        if not keys:
            return next(iter(self.pipelines.values()))
        number = slot(keys[0])
        if any(slot(key) != number for key in keys):
            raise CommandError(CROSS_SLOT)
        pipeline = self.pipelines.get(partition_of(number, self.partitions))
        if pipeline is not None:
            return pipeline
        owner = self.cluster.owner_of(number)
        if owner is None:
            raise CommandError("CLUSTERDOWN Hash slot not served")
        raise CommandError(f"MOVED {number} {owner[0]}:{owner[1]}")

    def read_anywhere(self, spec: Spec, args: list[bytes], db: int) -> Reply:
        """A read without waiting for a tick: by the wall clock where the log's is behind."""
        if self.clustered and spec.keyless:
            return self.all_partitions.read(spec, args, self.wall_ms)
        pipeline = self.pipeline_of(spec.keys(args))
        try:
            return pipeline.read(spec, args, db, self.wall_ms)
        except DueError:
            return pipeline.read(spec, args, db, at_ms=self.wall_ms)

    # ------------------------------------------------------------------ ingest.reporting.observer.Observer

    def applied(self, partition: int, applied: Applied, value_bytes: int, seconds: float) -> None:
        """A batch is committed: serve who waits for its keys, tell who listens."""
        pipeline = self.pipelines[partition]
        pipeline.moved()
        if partition in self._loading and pipeline.machine.next_offset >= pipeline.ready_offset:
            del self._loading[partition]
            self.refresh()
        if pipeline.machine.has_changed or b"SWAPDB" in applied.commands:
            self.stats.count_changes(applied)
        if b"SWAPDB" in applied.commands:
            self.blocked.look_again()
        if applied.modified:
            self.stats.expired_keys += len(applied.expired)
            if self.notifications.flags:
                self.notifications.on_applied(applied)
            if self.blocked.any:
                self.blocked.on_modified(pipeline, applied.modified)

    def condition(self, partition: int, condition: Condition, reason: str) -> None:
        """A partition goes on, or is set aside."""
        if self.pipelines:
            self.witness()
            self.refresh()
            if condition is Condition.RUNNING:
                self.blocked.look_again()

    def lag(self, partition: int, events: int, seconds: float) -> None:
        """INFO shows it."""
        self.stats.lag_events[partition] = events

    def cleaned(self, partition: int, cleaned: Cleaned) -> None:
        """INFO shows it."""
        self.stats.count_cleaned(cleaned)

    # ------------------------------------------------------------------ of the cleaner

    @property
    def may_expire(self) -> bool:
        """Whether keys may go by themselves now."""
        return self.active_expire and not self.pause.is_on

    def swept(self, _partition: int, swept: Swept) -> None:
        """Keys and fields have gone because their time was over: tell who listens."""
        self.notifications.on_swept(swept)

    def witness(self) -> None:
        """Let the machines say which keys they touch, while anybody needs that."""
        wanted = bool(self.notifications.flags) or self.blocked.any
        for pipeline in self.pipelines.values():
            if pipeline.owned.worker.is_open:
                pipeline.machine.witnessing = wanted
                pipeline.machine.use_knobs(self.config.knobs)

    # ------------------------------------------------------------------ inside

    def _follow_config(self) -> None:
        config = self.config

        def events(value: str) -> None:
            self.notifications.flags = self.notifications.parse(value)
            self.witness()

        def refusals(value: int) -> None:
            self.acl.log.entries_max = value

        config.follow("notify-keyspace-events", events)
        config.follow("acllog-max-len", refusals)
        config.on_change("maxclients", check_room)
        config.on_change("requirepass", self.acl.require)
