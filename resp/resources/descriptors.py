"""File descriptors: one for each client, and a reserve for the process itself."""

from __future__ import annotations

import resource
from typing import Final

import structlog

from resp.settings.config import Config

RESERVED: Final = 512
"""For the store's files, the log, the broker's connections, and HTTP (`ops.serving.pages.http`)."""


logger = structlog.get_logger(__name__)


def make_room(config: Config) -> None:
    """See to descriptors for `maxclients` clients, or allow only as many clients as there are descriptors for."""
    wanted = config["maxclients"]
    room = room_for_clients(wanted)
    if room < wanted:
        logger.warning("fewer_clients", maxclients=wanted, room=room, hint="raise the limit of open files")
        config.start("maxclients", str(room))


def room_for_clients(wanted: int) -> int:
    """How many of `wanted` clients there are descriptors for; the process' limit is raised as far as it has to be."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    if soft < wanted + RESERVED:
        soft = wanted + RESERVED if hard == resource.RLIM_INFINITY else min(wanted + RESERVED, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return min(wanted, max(1, soft - RESERVED))


def check_room(clients: int) -> None:
    """For `CONFIG SET maxclients`.

    Raises:
        ValueError: there are not so many descriptors, with Redis' reason.
    """
    room = room_for_clients(clients)
    if room < clients:
        raise ValueError(f"The operating system is not able to handle the specified number of clients, try with {room}")
