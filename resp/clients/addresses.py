"""The addresses of a client's socket."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from enum import Enum, auto


class Endpoint(Enum):
    """The addresses of a worker, by what it is to clients that come there.

    At MAIN it is the owner of its partitions. In a group with one partition, it is their owner or a replica.
    """

    MAIN = auto()
    REPLICA = auto()
    SENTINEL = auto()


def addresses(transport: asyncio.Transport) -> tuple[bytes, bytes, int]:
    """Both ends as HOST:PORT, and the file descriptor."""
    connected = transport.get_extra_info("socket")
    ends = [transport.get_extra_info(name) for name in ("peername", "sockname")]
    peer, local = (f"{end[0]}:{end[1]}".encode() if isinstance(end, tuple) else b"?:0" for end in ends)
    return peer, local, connected.fileno() if connected is not None else -1


def is_loopback(transport: asyncio.Transport) -> bool:
    """Whether the client is on this machine, as far as its address says."""
    connected: socket.socket | None = transport.get_extra_info("socket")
    if connected is not None and connected.family == socket.AF_UNIX:
        return True
    peer = transport.get_extra_info("peername")
    if not peer:
        return False
    address = ipaddress.ip_address(peer[0].partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
