"""The state that all sessions of one server share: partitions, users, settings, subscriptions, counters."""

from __future__ import annotations

import math
import secrets
from time import monotonic
from typing import Generic, Protocol, TypeVar

from engine import native
from engine.apply.script_calls import ScriptCalls
from engine.apply.scripts import ScriptRunner
from engine.commands.registry import Spec
from engine.errors import DueError
from engine.values.replies import Reply
from ingest.applying.slicing.slices import Slices
from ingest.reporting.rate_limited import RateLimitedLog
from resp.acl import Acl
from resp.acl.script_denials import tell_reader
from resp.blocking.blocked_clients import Blocked
from resp.blocking.holding import Holding
from resp.blocking.pause import Pause
from resp.catalog.plans import Plans
from resp.clients.client_path import ClientPath, client_path
from resp.clients.known_scripts import KnownScripts
from resp.clients.served import Served, served_of
from resp.cluster.bus import Bus
from resp.cluster.router import Reader, Router
from resp.cluster.sentinel import Sentinel
from resp.cluster.topology import ClusterMap, map_of
from resp.host import Host
from resp.messages.monitor import Monitors
from resp.messages.notifications import Notifications
from resp.messages.pubsub import PubSub
from resp.messages.tracking import CachingClient, Tracking
from resp.resources.heap import Heap
from resp.resources.shortage import Shortage
from resp.settings.config import Config, start_values
from resp.settings.startup import RespSettings
from resp.statistics.accounting import Accounting
from resp.statistics.latency import Latency
from resp.statistics.script_timer import ScriptTimer
from resp.statistics.slowlog import SlowLog
from resp.statistics.stats import Stats
from resp.writes.outboxes import Outboxes
from resp.writes.replica_pipeline import ReplicaPipeline
from resp.writes.write_pipeline import NOT_READY, WritePipeline
from slotlog.clock import ReadClock
from slotlog.log import Log
from slotlog.shared.slots import partition_of, slot


class Refreshable(CachingClient, Reader, Protocol):
    """A session, for calls to all sessions at once."""

    @property
    def at_sentinel(self) -> bool:
        """Whether it has come to this worker as to a Sentinel."""
        ...

    def refresh(self) -> None:
        """Find out anew whether commands may take the short way."""
        ...

    def flush(self) -> None:
        """Send what is there."""
        ...

    def resume(self) -> None:
        """Go on with the commands that wait."""
        ...


S = TypeVar("S", bound=Refreshable)


class Shared(Generic[S]):
    """The state that all sessions of one server share.

    Args:
        settings: addresses and secrets.
        host: the process around it.
        log: where writes go; started and closed by whoever started it.

    Attributes:
        sessions: connected clients by id, in the order in which they came.
        last_id: of the newest of them.
        pipelines: the write pipelines of the owned partitions.
        outboxes: send their writes to the log.
        replicas: what answers reads in partitions that this worker follows.
        router: finds the partition of a command.
        sentinel: the master of a group with one partition, and its replicas.
        known_scripts: what EVALSHA finds in any partition.
        holding: commands that wait for a partition which moves.
        owns_until: until when, on the monotonic clock, a group lets this worker own anything.
        has_lapsed: that time was over; its pipelines serve nobody until they are taken anew.
        loading: partitions that answer LOADING until all is applied that was in the log.
        leaving: those of partitions that were given up, until their last writes are answered.
        ready: sessions that have something to be sent, in the order in which it came up.
        slices: in which commands run; those of the partitions.
        served: by partition, those into which commands may take the short way; empty: none may.
        hot: the part of the way of commands that is in C; None: it goes by Python alone.
        client_path: takes what is usual of their bytes, and sends replies, in C; None: not now, or not at all.
        wall_ms: the read clock as of the last bytes from any client, or the last round of what happens by time; of
            writes it is looked at once in a millisecond.
        accounting: is told how each command ended.
        last_open: when the default user was last seen to need no password, on the monotonic clock.
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
        self.sessions: dict[int, S] = {}
        self.last_id = 0
        self.pipelines: dict[int, WritePipeline] = {}
        self.outboxes = Outboxes(log, self.flush)
        self.loading: dict[int, None] = {}
        self.leaving: dict[int, WritePipeline] = {}
        self.replicas: dict[int, ReplicaPipeline] = {}
        self.owns_until = math.inf
        self.has_lapsed = False
        self.ready: dict[S, None] = {}
        self.slices = Slices()
        self.plans, self.stats = Plans(clustered=self.clustered), Stats()
        self.pubsub = PubSub()
        self.monitors, self.slowlog, self.latency = Monitors(self._monitor), SlowLog(), Latency()
        self.accounting = Accounting(self.plans, self.config, self.stats, self.slowlog, self.latency)
        self.notifications = Notifications(self.pubsub)
        self.tracking = Tracking(self.sessions, self.config, self._follow, self.flush)
        self.blocked = Blocked(self)
        self.pause, self.shortage = Pause(self.refresh), Shortage(self.config, self.refresh)
        self.known_scripts = KnownScripts(self.pipelines, self.replicas)
        self.cluster: ClusterMap = map_of(settings, 0)
        self.router = Router(self.pipelines, self.replicas, self.partitions, lambda: self.cluster)
        self.bus, self.heap, self.refusals = Bus(self), Heap(), RateLimitedLog()
        self.run_id, self.read_clock = secrets.token_hex(20), ReadClock()
        self.started_ms = self.wall_ms = self.read_clock.latest_ms
        self.port = self.tls_port = self.replica_port = self.sentinel_port = 0
        self.sentinel = Sentinel(self, settings.master_name)
        self.holding = Holding(self)
        self.active_expire = True
        self.last_open = 0.0
        self.served: tuple[Served | None, ...] = ()
        self.client_path: ClientPath[S] | None = None
        self.hot = native.chosen()
        self._script_timer = ScriptTimer(self)
        self._crowd: dict[S, None] = {}
        self.config.follow("notify-keyspace-events", self._notify)
        self.config.follow("acllog-max-len", self._keep_refusals)
        self.config.on_change("requirepass", self._require)

    # ------------------------------------------------------------------ sessions

    def flush(self) -> None:
        """Send what has come up for the sessions."""
        while self.ready:
            ready, self.ready = self.ready, {}
            if self.client_path is not None:
                self.client_path.send(ready)
            else:
                for session in ready:
                    session.flush()
        if self._crowd and not any(pipeline.answers.crowded for pipeline in self.pipelines.values()):
            crowd, self._crowd = self._crowd, {}
            for session in crowd:
                session.resume()

    def refresh(self) -> None:
        """A partition, or a user's rights, changed: which commands may take the short way is to be found out anew."""
        held = self.pause.is_on or self.monitors.any or self.shortage.is_on
        self.served = () if held else served_of(self.pipelines, self.partitions)
        self.client_path = client_path(self)
        for session in self.sessions.values():
            session.refresh()

    def is_crowded(self, session: S, pipeline: WritePipeline) -> bool:
        """Whether too much waits in `pipeline`; then the session goes on when there is room."""
        if pipeline.answers.crowded:
            self._crowd[session] = None
            return True
        return False

    def forget(self, session: S) -> None:
        """The session's connection is closed: nothing is sent to it any more."""
        self.ready.pop(session, None)
        self._crowd.pop(session, None)

    def look_at_time(self) -> None:
        """Lapse where the time is over for which a group lets this worker own anything."""
        if monotonic() > self.owns_until:
            self.lapse()

    def lapse(self) -> None:
        """Serve nobody: this process stood still, or Kafka was away, and another worker may own everything by now."""
        self.has_lapsed = True
        serving = [pipeline for pipeline in self.pipelines.values() if pipeline.ready_offset != NOT_READY]
        for pipeline in serving:
            pipeline.ready_offset = NOT_READY
        if serving:  # else every request of every client would walk over all of them
            self.refresh()

    # ------------------------------------------------------------------ keys

    @property
    def held(self) -> tuple[int, ...]:
        """The partitions that are served here, or whose last writes are not answered yet."""
        return tuple(sorted({*self.pipelines, *self.leaving}))

    @property
    def is_standby(self) -> bool:
        """Whether this worker is in a group with one partition, and does not own it: a replica as a whole."""
        return self.settings.grouped and not self.clustered and not self.pipelines

    def messages_of(self, session: S) -> PubSub:
        """The subscriptions that a session may have: at a Sentinel's address those to its events."""
        return self.sentinel.pubsub if session.at_sentinel else self.pubsub

    def served_at(self, keys: list[bytes]) -> Served | None:
        """The partition of these keys in a cluster; None: they have no slot in common, or it takes no short way."""
        numbers = set(map(slot, keys))
        if len(numbers) != 1:
            return None
        (number,) = numbers
        return self.served[partition_of(number, self.partitions)]

    async def write_everywhere(self, name: bytes, args: list[bytes]) -> Reply:
        """A write without a key, in each partition.

        Raises:
            CommandError: as `AllPartitions.write`.
        """
        if name == b"SCRIPT|FLUSH":
            self.known_scripts.forget()
        return await self.router.owned.write(name, args)

    def read_anywhere(self, session: S, spec: Spec, args: list[bytes], db: int) -> Reply:
        """A read without waiting for a tick: by the wall clock where the log's is behind."""
        if self.clustered and spec.keyless:
            return self.router.keyspace_of(session).read(spec, args, self.wall_ms)
        pipeline = self.router.reader_of(session, spec.keys(args))
        try:
            return pipeline.read(spec, args, db, self.wall_ms)
        except DueError:
            return pipeline.read(spec, args, db, at_ms=self.wall_ms)

    def witness(self) -> None:
        """Let the machines say which keys they touch, while anybody needs that."""
        wanted = bool(self.notifications.flags) or self.blocked.any or self.tracking.any
        for pipeline in self.pipelines.values():
            if pipeline.owned.worker.is_open:
                pipeline.machine.witnessing = wanted
                pipeline.machine.use_knobs(self.config.knobs)
                pipeline.machine.scripts.show = self._show if self.monitors.any else None
                self._count_scripts(pipeline.machine.scripts)
        for replica in self.replicas.values():
            if replica.owned.worker.is_open:
                replica.machine.use_knobs(self.config.knobs)
                self._count_scripts(replica.machine.scripts)

    # ------------------------------------------------------------------ inside

    def _follow(self) -> None:
        """The first client begins to track, or the last one has ended it."""
        self.witness()
        for partition, pipeline in self.pipelines.items():
            if pipeline.owned.worker.is_open:
                self.tracking.follow(partition, pipeline.machine.next_offset)

    def _monitor(self) -> None:
        """The first client monitors, or the last one has ended it."""
        self.witness()
        self.refresh()

    def _show(self, db: int, command: list[bytes]) -> None:
        """Show a command of a script. It runs in a machine, where a slice may end: a client is not left half-way."""
        with self.slices.whole():
            self.monitors.feed_script(db, command)

    def _count_scripts(self, scripts: ScriptRunner) -> None:
        scripts.take_calls = self._take_calls
        scripts.timer = self._script_timer

    def _take_calls(self, calls: ScriptCalls) -> None:
        """Count what a script has called that was no event, and note what it was refused."""
        self.accounting.called_by_scripts(calls)
        tell_reader(calls.denials)

    def _notify(self, events: str) -> None:
        self.notifications.flags = self.notifications.parse(events)
        self.witness()

    def _require(self, requirepass: str) -> None:
        self.acl.require(requirepass)
        self.refresh()

    def _keep_refusals(self, count: int) -> None:
        self.acl.log.entries_max = count
