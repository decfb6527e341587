"""The RESP server's settings, and the process that hosts it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from engine.errors import CommandError
from engine.values.replies import Reply
from ops.addresses import parse_address
from ops.config import ConfigError, Settings
from ops.past.answering import HistoryOf, Read
from ops.serving.running import Running
from ops.snapshots.starting import start_from_snapshot
from ops.state.rebuilding.replay import replay
from ops.state.rebuilding.replay_plan import Until, parse_until
from ops.version import VERSION
from resp.settings.startup import RespSettings

_SECRET_GROUPS = frozenset({"kafka", "redis"})


def resp_settings(settings: Settings) -> RespSettings:
    """The settings of the RESP server."""
    redis = settings.redis
    return RespSettings(
        address=parse_address(settings.resp),
        tls_address=parse_address(redis.tls) if redis.tls else None,
        tls_cert=redis.tls_cert,
        tls_key=redis.tls_key,
        tls_ca=redis.tls_ca,
        tls_auth_clients=redis.tls_auth_clients,
        partitions=settings.partitions,
        own=() if settings.group.name else tuple(settings.owned),
        grouped=bool(settings.group.name),
        hold_seconds=settings.group.hold_seconds if settings.group.name else 0.0,
        peers=redis.peers,
        replica_address=parse_address(redis.replica) if redis.replica else None,
        master_name=settings.group.name,
        sentinel_address=parse_address(redis.sentinel) if redis.sentinel else None,
        announce=parse_address(redis.announce) if redis.announce else None,
        password=redis.password.get_secret_value(),
        peer_user=redis.peer_user,
        peer_password=redis.peer_password.get_secret_value(),
        tls_cluster=redis.tls_cluster,
        node_timeout_seconds=redis.node_timeout_seconds,
        acl_file=redis.acl_file,
        protected=redis.protected,
        debug_commands=redis.debug_commands,
        handshake_seconds=redis.handshake_seconds,
        config=redis.config,
    )


def idle_addresses(settings: Settings) -> list[str]:
    """The variables of addresses for Redis clients that have no effect, as `resp` is empty."""
    redis = settings.redis
    given = {"TLS": redis.tls, "REPLICA": redis.replica, "SENTINEL": redis.sentinel}
    return [] if settings.resp else [f"SLOTLOG_REDIS__{name}" for name, address in given.items() if address]


class ServiceHost:
    """An `resp.host.Host`: one service."""

    def __init__(self, service: Running) -> None:
        self._service = service

    @property
    def version(self) -> str:
        """Of slotlog."""
        return VERSION

    @property
    def settings(self) -> Mapping[str, str]:
        """The plain settings; groups that hold secrets are left out."""
        shown = self._service.settings.model_dump(exclude=set(_SECRET_GROUPS))
        return {name: str(value) for name, value in shown.items()}

    def stop(self) -> None:
        """As SIGTERM does."""
        self._service.stop()

    def disk_bytes(self) -> int:
        """Of RocksDB's files and write-ahead logs."""
        workers = [owned.worker for owned in self._service.consumer.partitions.values()]
        return sum(worker.store.stored_bytes() for worker in workers if worker.is_open)

    async def read_past(self, partition: int, moment: bytes, name: bytes, args: list[bytes], db: int) -> Reply:
        """By the process beside the service that reads the past."""
        return await self._service.past.ask(Read(partition, os.fsdecode(moment), name, args, db))

    async def read_history(
        self, partition: int, key: bytes, db: int, count: int, from_offset: int, until: bytes | None, *, values: bool
    ) -> Reply:
        """By that process, too."""
        end = None if until is None else os.fsdecode(until)
        return await self._service.past.ask(HistoryOf(partition, key, db, count, from_offset, end, values))

    def check_moment(self, moment: bytes) -> None:
        """As the verbs take it."""
        try:
            parse_until(os.fsdecode(moment), "the moment")
        except ConfigError as error:
            raise CommandError(f"ERR {error}") from None

    async def reload_and_compare(self) -> str:
        """Replay into a directory beside the state, compare the digests, and remove it."""
        settings = self._service.settings
        with TemporaryDirectory(prefix="reload-", dir=settings.data) as directory:
            replayed = await replay(settings, Path(directory) / "state", Until(), start=start_from_snapshot)
        faults = [
            f"partition {each.partition}: {each.note or 'the replayed state has another digest'}"
            for each in replayed
            if each.live_digest != each.digest
        ]
        return "; ".join(faults)
