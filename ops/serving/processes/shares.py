"""Divides the settings of a service among its processes: partitions, ports, memory and rates."""

from __future__ import annotations

from socket import gethostname
from typing import Final

from ops.addresses import parse_address
from ops.config import MEMORY_SETTINGS, ConfigError, Settings
from resp.cluster.topology import ALL_ADDRESSES, parse_peers
from resp.settings.startup import Address

_MEMORY_MIN: Final = 8 * 1024 * 1024
_PORT_MAX: Final = 65535


def shares(settings: Settings) -> list[Settings]:
    """The settings of each of `settings.processes` processes.

    Each has a run of the partitions, as even as can be, and of memory and rates an equal part. It listens for Redis
    clients on the port of the service and its own number added up, and the list of peers names all of them. In a group
    each is a member with a data directory of its own, and the machine is its zone: a standby there would die with it.

    Raises:
        ConfigError: there are fewer partitions than processes, or no such ports, or it is not known at which host the
            processes reach each other.
    """
    owned, count = settings.owned, settings.processes
    if settings.group.name:
        return [_member(settings, number) for number in range(count)]
    if count > len(owned):
        raise ConfigError(
            f"--processes {count} needs as many partitions, and this service has {len(owned)}: a partition is applied"
            " by one process (--partitions is chosen when the log is made)"
        )
    runs = [owned[number * len(owned) // count : (number + 1) * len(owned) // count] for number in range(count)]
    peers = _peers(settings, runs) if settings.resp else settings.redis.peers
    return [_share(settings, number, run, peers) for number, run in enumerate(runs)]


def _member(settings: Settings, number: int) -> Settings:
    group = settings.group
    told = {"instance": group.instance and f"{group.instance}-{number}", "zone": group.zone or gethostname()}
    update = {"data": settings.data / f"process-{number}", "group": group.model_copy(update=told)}
    return _share(settings, number, [], "").model_copy(update=update)


def _share(settings: Settings, number: int, run: list[int], peers: str) -> Settings:
    redis, count = settings.redis, settings.processes
    memory = {name: max(_MEMORY_MIN, getattr(settings, name) // count) for name in MEMORY_SETTINGS}
    rates = {name: _part(getattr(settings, name), count) for name in _RATES}
    addresses = {name: _moved(getattr(redis, name), number, name) for name in _ADDRESSES}
    return settings.model_copy(
        update={
            **memory,
            **rates,
            "processes": 1,
            "own": ",".join(map(str, run)),
            "own_of": "",
            "resp": _moved(settings.resp, number, "resp"),
            "redis": redis.model_copy(update={"peers": peers, **addresses}),
        }
    )


_ADDRESSES: Final = ("announce", "replica", "sentinel", "tls")
_RATES: Final = ("compaction_bytes_per_s", "log_scrub_bytes_per_s", "reclaim_elements_per_s")


def _part(rate: int, count: int) -> int:
    """An equal part of a rate, in which 0 has a meaning of its own."""
    return max(1, rate // count) if rate else 0


def _moved(address: str, number: int, name: str) -> str:
    """The address of a process: the port is its number higher; empty where there is none.

    Raises:
        ConfigError: there is no such port, or the first one is left to chance.
    """
    if not address:
        return ""
    host, port = parse_address(address)
    if not 0 < port <= _PORT_MAX - number:
        raise ConfigError(f"{name}: {address!r} needs a port from 1, so that each process has its own after it")
    return _text((host, port + number))


def _peers(settings: Settings, runs: list[list[int]]) -> str:
    """The list of peers with the processes of this service in it, where it does not name them itself.

    Raises:
        ConfigError: the list cannot be read, or the address stands for all hosts.
    """
    redis = settings.redis
    try:
        named = parse_peers(redis.peers, settings.partitions)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    address = redis.announce or (redis.tls if redis.tls_cluster and redis.tls else settings.resp)
    entries = [redis.peers] if redis.peers else []
    for number, run in enumerate(runs):
        missing = [partition for partition in run if partition not in named]
        if missing and parse_address(address)[0] in ALL_ADDRESSES:
            raise ConfigError(
                f"{address} does not say at which host the processes reach each other, and clients reach them: set"
                " SLOTLOG_REDIS__ANNOUNCE to HOST:PORT"
            )
        entries += [f"{partition}={_moved(address, number, 'resp')}" for partition in missing]
    return ",".join(entries)


def described(settings: Settings) -> str:
    """The partitions of a process, for an operator."""
    if settings.group.name:
        return f"those that the group {settings.group.name} gives it"
    return f"{'partition' if len(settings.owned) == 1 else 'partitions'} {settings.own}"


def _text(address: Address) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
