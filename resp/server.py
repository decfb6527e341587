"""The RESP server: listens, takes partitions and gives them up, and goes on by time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from time import monotonic
from typing import Any, Final

import structlog

import resp.commands  # noqa: F401 - fills the registry
from ingest.applying.partitions.owned_partition import OwnedPartition
from ingest.applying.slicing.slices import Slices
from ingest.membership.plan import Role
from resp.clients.addresses import Endpoint
from resp.clients.authorization import cut_off
from resp.clients.connection import Connection
from resp.clients.running.entrances import ENTRANCES
from resp.clients.running.request_path import teach
from resp.clients.session import Session
from resp.clients.shared import Shared
from resp.cluster.topology import ClusterMap, map_of
from resp.host import Host
from resp.observer import ServerObserver
from resp.resources.descriptors import check_room, make_room
from resp.resources.eviction import evict
from resp.settings.startup import Address, RespSettings
from resp.statistics.stats import SAMPLE_SECONDS
from resp.wire.tls import server_context
from resp.writes.replica_pipeline import ReplicaPipeline
from resp.writes.stopping import GIVEN_AWAY, MOVED_AWAY, finish
from resp.writes.write_pipeline import WritePipeline
from slotlog.log import Log

_LINGER_SECONDS: Final = 5.0
_QUIET_SECONDS: Final = 1.0

logger = structlog.get_logger(__name__)


class Server(Shared[Session]):
    """The RESP server of one worker.

    Args:
        settings: addresses and secrets.
        host: the process around it.
        log: where writes go; started and closed by whoever started it.

    Attributes:
        observer: hears what the worker's consumer and cleaner do.
    """

    def __init__(self, settings: RespSettings, host: Host, log: Log) -> None:
        super().__init__(settings, host, log)
        teach(self.hot)
        self.observer = ServerObserver(self)
        self._listeners: list[asyncio.Server] = []
        self._cron: asyncio.Task[None] | None = None
        self.config.on_change("maxclients", check_room)

    # ------------------------------------------------------------------ life

    def attach(self, owned_partitions: Mapping[int, OwnedPartition]) -> None:
        """Take over the writes of these partitions, before their consumer opens them."""
        for partition, owned in owned_partitions.items():
            self.take(partition, owned)
            self.run_in(owned.worker.gate.slices)

    def run_in(self, slices: Slices) -> None:
        """Run commands in these slices, which are those of the partitions."""
        self.slices = slices
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
        if settings.replica_address is not None:
            tls = server_context(settings) if settings.tls_cluster and settings.tls_address is not None else None
            self.replica_port = await self._listen(settings.replica_address, Endpoint.REPLICA, ssl=tls)
        if settings.sentinel_address is not None:
            self.sentinel_port = await self._listen(settings.sentinel_address, Endpoint.SENTINEL)
        self.cluster = map_of(settings, self.port)
        self.bus.start()
        self.config.start("port", str(self.port))
        self.config.start("tls-port", str(self.tls_port))
        self.stats.start()
        self._cron = asyncio.create_task(self._run_cron())
        logger.info("resp", port=self.port, tls_port=self.tls_port, clustered=self.clustered)

    async def open(self) -> None:
        """After the consumer has opened: answer LOADING until everything is applied that is in the log now."""
        for partition in list(self.pipelines):
            await self.begin(partition)
        self.refresh()

    # ------------------------------------------------------------------ partitions that come and go

    def take(self, partition: int, owned: OwnedPartition) -> None:
        """Take over the writes of a partition. Until `begin` its clients hear that it is being opened."""
        pipeline = WritePipeline(partition, owned, self.log, self.outboxes, self.read_clock)
        others = {**self.pipelines, partition: pipeline}
        self.pipelines.clear()  # in place: others hold it
        self.pipelines.update(sorted(others.items()))
        owned.local_appends, owned.tick = pipeline.local_writes, pipeline.tick_when_idle
        owned.leave = partial(self._left, pipeline)
        self.refresh()  # commands take no short way any more into the pipeline that was there before

    async def begin(self, partition: int) -> None:
        """Serve a partition as soon as everything is applied that is in the log now."""
        pipeline = self.pipelines[partition]
        pipeline.ready_offset = await self.log.end_offset(partition)
        self.loading[partition] = None
        self.witness()  # one that was followed runs already

    def serve_reads(self, partition: int, owned: OwnedPartition, shown_to: int) -> None:
        """Answer reads in a partition that is followed, once it is where its owner is.

        Args:
            partition: its number.
            owned: its worker, and how it is.
            shown_to: clients have seen here what is before this offset.
        """
        replica = ReplicaPipeline(partition, owned, self.log, self.outboxes, self.read_clock, shown_to)
        self.replicas[partition] = replica
        others = sorted(self.replicas.items())
        self.replicas.clear()  # in place: others hold it
        self.replicas.update(others)
        self.witness()

    def end_reads(self, partition: int) -> None:
        """Answer no reads any more in a partition that was followed."""
        if replica := self.replicas.pop(partition, None):
            replica.leave()
            self._has_new_role()

    async def give_up(self, partition: int, cluster: ClusterMap) -> None:
        """Send a partition's clients elsewhere from now on, and answer what they have written.

        Its consumer has to let go of it next.

        Args:
            partition: its number.
            cluster: says who owns it now.
        """
        self.follow(cluster)
        pipeline = self.pipelines.pop(partition, None)
        if pipeline is None:
            return
        self.leaving[partition] = pipeline
        self.loading.pop(partition, None)
        self.stats.lag_events.pop(partition, None)
        pipeline.closing = True
        self.refresh()
        self.tracking.on_condition(partition, is_stopped=True)
        owner = cluster.owner_node(partition) if self.clustered else None
        self.blocked.leave(pipeline, None if owner is None or owner is cluster.me else owner.address)
        if pipeline.owned.role is Role.OWNER:
            await finish(lambda: bool(pipeline.answers.pending_events))
        else:  # it never began
            pipeline.owned.begin_serving_nobody()
            self._left(pipeline)
        self._has_new_role()

    def _left(self, pipeline: WritePipeline) -> None:
        """The consumer lets go of the partition: nothing of it is applied any more."""
        pipeline.close(MOVED_AWAY, GIVEN_AWAY)
        pipeline.leave()
        if self.leaving.get(pipeline.partition) is pipeline:
            del self.leaving[pipeline.partition]

    def _has_new_role(self) -> None:
        """A master is a replica from now on, or the other way round: its clients are closed, and ask anew who is who.

        Redis Sentinel does the same when it fails over.
        """
        if self.clustered:
            return
        for session in list(self.sessions.values()):
            if session.endpoint is Endpoint.MAIN and not session.peer:
                session.close("this worker has another role now")

    def follow(self, cluster: ClusterMap) -> None:
        """Tell clients of other owners from now on."""
        self.cluster = cluster
        self.bus.follow()

    # ------------------------------------------------------------------ its end

    async def linger(self) -> None:
        """Send clients on to other workers, which own everything now, until none has sent anything for a moment.

        Then no command is under way when connections are closed: a client whose connection ends in the middle of one
        cannot know whether it was done.
        """
        until = monotonic() + _LINGER_SECONDS
        while self.clustered and (now := monotonic()) < until:
            active = [session.last_active for session in self.sessions.values() if not session.peer]
            if now - max(active, default=0.0) > _QUIET_SECONDS:
                return
            await asyncio.sleep(_QUIET_SECONDS / 10)

    async def drain(self) -> None:
        """Take no more clients and no more writes, and answer those under way, and reads that are suspended."""
        self._stop_taking()
        self.holding.end()
        self.blocked.end()
        pipelines, sessions = self.pipelines.values(), self.sessions.values()
        await finish(
            lambda: (
                any(each.answers.pending_events for each in pipelines)
                or any(each.inbox.is_suspended for each in sessions)
            )
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

    async def _listen(self, address: Address, endpoint: Endpoint = Endpoint.MAIN, **options: Any) -> int:
        loop, connection = asyncio.get_running_loop(), partial(Connection, self, endpoint=endpoint)
        listener = await loop.create_server(connection, *address, backlog=511, **options)  # as Redis
        self._listeners.append(listener)
        port: int = listener.sockets[0].getsockname()[1]
        return port

    async def _run_cron(self) -> None:
        """Run periodic work, ten times a second as in Redis."""
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
                self.look_at_time()
                self.tracking.limit()
                if self.sentinel_port:
                    self.sentinel.look()
                self.flush()
            except Exception:
                logger.exception("resp_cron_failed")
