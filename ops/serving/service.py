"""The composition root: builds log, workers, metrics and HTTP server from settings and runs them until a signal."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog
from stamina import retry_context

from engine import native
from ingest.applying.batches.worker import Worker
from ingest.applying.consumer import Consumer
from ingest.applying.partitions.ownership import Ownership
from ingest.applying.slicing.slices import Slices
from ingest.applying.watch import COMMIT_SECONDS
from ingest.dead_letters.finding import open_search
from ingest.dead_letters.stores import open_dead_letters
from ingest.membership.plan import Role
from ingest.reporting.observer import Observer, Observers
from ops.config import ConfigError, Settings, unknown_variables
from ops.metrics import Metrics, Watched
from ops.serving.background import cleaning
from ops.serving.changes import ChangeFeed
from ops.serving.group.lags import GroupLags
from ops.serving.group.life import hold_data, live_in_group
from ops.serving.group.roles import GroupRoles
from ops.serving.health import Health, PartitionHealth
from ops.serving.keeping.restoring import Restorer
from ops.serving.keeping.retention import RetentionGuard
from ops.serving.keeping.snapshots import Snapshots
from ops.serving.keeping.trimming import LogTrimmer
from ops.serving.pages.status import StatusDocument
from ops.serving.past import PastProcess
from ops.serving.process import process_name
from ops.serving.resp_host import ServiceHost, idle_addresses, resp_settings
from ops.serving.rocksdb_log import RocksdbLogs
from ops.serving.systemd import supervise
from ops.snapshots.report import SnapshotReport
from ops.state.clocks.guard import ClockGuard, decided, latest_ms
from ops.state.opening.directories import (
    free_space_guard,
    has_room_to_clean,
    has_state,
    home_of,
    is_disk_full,
    key_cache_bytes,
    partition_path,
    prepare_data,
    shared_memory,
    store_opener,
)
from ops.state.rebuilding.swap import finish_swap
from ops.tracing import Spans
from ops.version import VERSION
from resp.server import Server
from slotlog.errors import LogUnavailableError
from slotlog.log import Log, embedded_path, open_log

if TYPE_CHECKING:
    from ops.serving.pages.http import HttpServer

_GRACE_SECONDS: Final = 3.0  # for the batch at hand; a broker that is away must not keep us from ending within 10 s
_INSIST_SECONDS: Final = 1.0
_COMMIT_SECONDS_IN_GROUP: Final = 1.0  # followers apply no further than what is committed

logger = structlog.get_logger(__name__)


class Service:
    """One slotlog process.

    `run` returns after SIGTERM or SIGINT (or `stop`), with every applied event committed and every store closed.

    Args:
        settings: its settings.
        http_socket: a Unix socket to serve health, metrics and status at, instead of the address `settings.http`.
    """

    def __init__(self, settings: Settings, http_socket: Path | None = None) -> None:
        self.settings = settings
        self._http_socket = http_socket
        self._clock = ClockGuard(settings)
        self.metrics = Metrics()
        self.http: HttpServer | None = None
        self._stop = asyncio.Event()
        self._stopping = asyncio.Event()  # once the writes of Redis clients are answered
        self._log = open_log(
            settings.log_url,
            topic=settings.topic,
            partitions=settings.partitions,
            kafka=settings.kafka,
            create=not has_state(settings),  # a state without its log is a loss, which a new log would only hide
        )
        self._dead_letters = open_dead_letters(self._log)
        self.past = PastProcess(settings)
        self.resp = Server(resp_settings(settings), ServiceHost(self), self._log) if settings.resp else None
        self._spans = Spans(settings) if settings.tracing else None
        self._slices = Slices()
        self._memory = shared_memory(settings)
        self._workers = self._make_workers()
        self._rocksdb_logs = RocksdbLogs({each: partition_path(settings.data, each) for each in settings.owned})
        guard = partial(free_space_guard, settings.data, settings.free_bytes_min)
        self._has_room = partial(has_room_to_clean, settings.data, settings.free_bytes_min)
        self.consumer = Consumer(
            self._log,
            self._workers,
            self._observer,
            guard,
            identity_seconds=settings.identity_check_seconds,
            has_room=self._has_room,
            role=Role.NONE if settings.group.name else Role.OWNER,
            commit_seconds=_COMMIT_SECONDS_IN_GROUP if settings.group.name else COMMIT_SECONDS,
        )
        owned = self.consumer.roles.owned
        self._health = Health(self.consumer, self.metrics.lag_of, settings, self._log)
        self._clock.watch(self.consumer.partitions)
        name = settings.group.instance or process_name(settings.data)
        self.ownership = Ownership(self._log, name, owned)
        self._health.ownership = self.ownership
        self._health.dead_letters = self._dead_letters
        self.reports = {partition: SnapshotReport() for partition in settings.owned}
        self.restorer = Restorer(settings, self.consumer.partitions, self._log, self.reports)
        self._health.restoring = self.restorer.text
        self.snapshots = Snapshots(settings, self.consumer.partitions, owned, self.metrics.applied_bytes, self.reports)
        self._retention = RetentionGuard(settings, self.consumer.partitions, self._log, self.reports)
        self.changes = ChangeFeed(settings, owned)
        self._trimmer = LogTrimmer(settings, owned, self._log, self.reports)
        if self.resp is not None:
            self.resp.run_in(self._slices)
            self.resp.attach(owned)
        self._lags = GroupLags(self.consumer, self.metrics.lag_of)
        self._roles = GroupRoles(settings, name, self.consumer, self.resp, self.restorer, self._lags)
        if settings.group.name:
            self._health.group = self._roles.unready
            self.ownership.members = lambda: self._roles.membership.plan.members

    @property
    def _observer(self) -> Observer:
        return self.metrics if self.resp is None else Observers((self.metrics, self.resp.observer))

    @property
    def _keepers(self) -> tuple[Snapshots, Restorer, LogTrimmer, RetentionGuard, ChangeFeed]:
        return self.snapshots, self.restorer, self._trimmer, self._retention, self.changes

    @property
    def log(self) -> Log:
        """The log that it applies."""
        return self._log

    def stop(self) -> None:
        """Ask `run` to end after the batch at hand."""
        self._stop.set()

    async def run(self) -> None:
        """Serve until stopped.

        Raises:
            ConfigError, StateMismatchError, LogMismatchError, LogUnavailableError, OSError: it cannot start.
        """
        for hint in unknown_variables(os.environ):
            logger.warning("unknown_variable", hint=hint)
        prepare_data(self.settings)
        finish_swap(self.settings.data)
        held = hold_data(self.settings)
        loop = asyncio.get_running_loop()
        for name in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(name, self.stop)
        with self._slices.timed():
            serving = asyncio.create_task(self._serve())
            stopping = asyncio.create_task(self._drain())
            await asyncio.wait((serving, stopping), return_when=asyncio.FIRST_COMPLETED)
            stopping.cancel()
            await asyncio.wait((serving,), timeout=_GRACE_SECONDS)
            while not serving.done():  # it waits for something that is away; each cancel ends one such wait
                serving.cancel()
                await asyncio.wait((serving,), timeout=_INSIST_SECONDS)
        if held is not None:
            held.close()
        if not (serving.cancelled() and self._stop.is_set()):
            serving.result()

    async def _serve(self) -> None:
        settings = self.settings
        self._clock.begin()
        guarding = asyncio.create_task(self._clock.run())
        supervising = asyncio.create_task(supervise(self._health))
        reading = asyncio.create_task(self._rocksdb_logs.run())
        measuring = asyncio.create_task(self.metrics.run())
        try:
            self.metrics.watch(
                Watched(
                    settings,
                    self.consumer.partitions,
                    self._log,
                    self._memory,
                    self.resp,
                    self._health.readiness,
                    self.ownership,
                    self._dead_letters,
                    self.reports,
                    self.changes,
                    self._roles.figures,
                )
            )
            if (
                settings.http or self._http_socket is not None
            ):  # first: whoever asks `/readyz` meanwhile hears that it is not ready
                await self._start_http()
            await self._once_log_answers(self._start_logs)
            await self._once_log_answers(self._retention.refuse_uncovered)
            if self.resp is not None:
                await self._start_resp(self.resp)
            elif idle := idle_addresses(self.settings):
                logger.warning("resp_is_off", without_effect=idle, hint="give --resp an address, on loopback say")
            await self._once_log_answers(self.restorer.restore_missing)
            await self._once_log_answers(self.consumer.open)
            if self.resp is not None:
                await self._once_log_answers(self.resp.open)
            if native.IS_BUILT and not native.FITS:
                logger.warning("hot_path_unused", reason="it was built for another version", hint="run make install")
            logger.info(
                "started",
                version=VERSION,
                log=self._log.url,
                topic=settings.topic,
                own=settings.owned,
                data=str(settings.data),
            )
            await self._consume()
        finally:
            for task in (guarding, supervising, reading, measuring):
                task.cancel()
            if self.resp is not None:
                await self.resp.close()
            self.past.close()
            self.consumer.close()
            self._rocksdb_logs.close()
            if self.http is not None:
                await self.http.close()
            await self._dead_letters.close()
            await self._log.close()
            if self._spans is not None:
                await self._spans.close()
            logger.info("stopped")

    async def _start_logs(self) -> None:
        await self._log.start()
        await self._dead_letters.start()

    async def _once_log_answers(self, begin: Callable[[], Awaitable[None]]) -> None:
        """Begin. Kafka is waited for where it is away: both may come up at the same time, or it the later.

        And room for the embedded log, whose opening writes.

        Raises:
            LogUnavailableError: the embedded log cannot be used; nothing would change that by itself.
        """

        def comes_back(error: Exception) -> bool:
            self._health.log_awaited = str(error) if isinstance(error, LogUnavailableError) else ""
            if not isinstance(error, LogUnavailableError) or (file := embedded_path(self._log.url)) is None:
                return isinstance(error, LogUnavailableError)
            if is_full := is_disk_full(file.parent):
                logger.warning("log_waits_for_room", file=str(file), hint="its disk is full: make room")
            return is_full

        async for attempt in retry_context(on=comes_back, attempts=None, timeout=None, wait_initial=1, wait_max=5):
            with attempt:
                await begin()
        self._health.log_awaited = ""

    async def _consume(self) -> None:
        """Apply and clean until stopped. What ends that otherwise nobody expected, so it is logged with its origin."""
        owning = asyncio.create_task(self.ownership.run())
        keeping = [asyncio.create_task(each.run()) for each in self._keepers]
        keeping.append(asyncio.create_task(self.past.keep_index(self.consumer.partitions)))
        watching = asyncio.create_task(self._dead_letters.watch(self.settings.identity_check_seconds))
        grouping = (
            asyncio.create_task(live_in_group(self.settings, self._roles, self._lags))
            if self.settings.group.name
            else None
        )
        try:
            async with cleaning(self.settings, self._log, self.consumer, self._observer, self.resp, self._has_room):
                await self.consumer.run(self._stopping)
        except Exception:
            logger.exception("failed")
            raise
        finally:
            owning.cancel()
            watching.cancel()
            if grouping is not None:
                await self._leave_group(grouping)
            for task in keeping:
                task.cancel()
            await asyncio.wait(keeping)  # their files are removed

    async def _leave_group(self, grouping: asyncio.Task[None]) -> None:
        """Serve nobody any more, then leave: whoever takes over may take the next write at once."""
        if self.resp is not None:
            await self.resp.close()
        grouping.cancel()
        await asyncio.wait((grouping,))

    async def _drain(self) -> None:
        """After `stop`: hand over to others, answer what Redis clients have written, then let the consumer end."""
        await self._stop.wait()
        self._health.stopping = True
        self.restorer.close()
        if self.settings.group.name:
            await self._roles.hand_over()
        if self.resp is not None:
            if not self.resp.pipelines:
                await self.resp.linger()
            await self.resp.drain()
        self._stopping.set()

    async def _start_resp(self, server: Server) -> None:
        """Listen for Redis clients, who hear LOADING until the state is open."""
        settings = self.settings
        try:
            await server.start()
        except (OSError, ValueError) as error:
            raise ConfigError(f"--resp {settings.resp} cannot be served: {error}") from error

    def health(self) -> list[PartitionHealth]:
        """Every owned partition: whether it is applied, and near enough to the log's end."""
        return self._health.partitions()

    async def _start_http(self) -> None:
        # aiohttp takes 0.2 s to import; a service without it need not wait
        from ops.serving.pages.http import HttpServer, start_http  # noqa: PLC0415
        from ops.serving.pages.page_history import history_of, refusal  # noqa: PLC0415

        search, history = open_search(self._log, self._dead_letters), history_of(self)
        status = StatusDocument(self, self._health.readiness, search, lambda: not refusal(self))
        exposition = self.metrics.exposition
        if self._http_socket is None:
            self.http = await start_http(self.settings, exposition, self._health, status, history)
        else:
            self.http = HttpServer(exposition, self._health, status, history)
            await self.http.start_unix(self._http_socket)

    def _make_workers(self) -> dict[int, Worker]:
        settings = self.settings
        open_store = store_opener(settings, settings.data, self._memory)
        return {
            partition: Worker(
                home_of(settings, partition),
                self._log,
                open_store,
                self._dead_letters,
                self._observer,
                latest_ms=latest_ms,
                decided=partial(decided, settings.data),
                records_max=settings.batch_records_max,
                key_cache_bytes=key_cache_bytes(settings),
                tracing=None if self._spans is None else self._spans.tracing,
                slices=self._slices,
            )
            for partition in settings.owned
        }
