"""File descriptors for clients: the limit is raised, or fewer clients are let in than the setting says."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from resp.resources.descriptors import RESERVED, room_for_clients
from tests.real.oracle import ErrorReply, SimpleString
from tests.resp.harness import serving


class Limits:
    """The process' limit of open files, played."""

    def __init__(self, soft: int, hard: int) -> None:
        self.now = soft, hard

    def get(self, _which: int) -> tuple[int, int]:
        """As `resource.getrlimit`."""
        return self.now

    def set(self, _which: int, limits: tuple[int, int]) -> None:
        """As `resource.setrlimit`."""
        self.now = limits


def play(monkeypatch: pytest.MonkeyPatch, soft: int, hard: int) -> Limits:
    """These limits from now on."""
    limits = Limits(soft, hard)
    monkeypatch.setattr(resource, "getrlimit", limits.get)
    monkeypatch.setattr(resource, "setrlimit", limits.set)
    return limits


@pytest.mark.parametrize(
    ("soft", "hard", "room", "then"),
    [
        (1024, 1 << 20, 10_000, 10_000 + RESERVED),
        (1024, resource.RLIM_INFINITY, 10_000, 10_000 + RESERVED),
        (1024, 4096, 4096 - RESERVED, 4096),
        (1 << 20, 1 << 20, 10_000, 1 << 20),
        (100, 100, 1, 100),
    ],
)
def test_room_is_made(monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, room: int, then: int) -> None:
    """The soft limit goes up as far as it has to and may; what the process needs itself is not for clients."""
    limits = play(monkeypatch, soft, hard)

    assert room == room_for_clients(10_000)
    assert (then, hard) == limits.now


async def test_a_server_admits_no_more_clients_than_there_are_descriptors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`maxclients` is what is possible, and cannot be set higher: with Redis' reason."""
    play(monkeypatch, 1024, 1024)
    room = 1024 - RESERVED
    async with serving(tmp_path) as live:
        told = await live.ask("CONFIG", "GET", "maxclients")
        refused = await live.ask("CONFIG", "SET", "maxclients", room + 1)
        taken = await live.ask("CONFIG", "SET", "maxclients", room)

    reason = f"The operating system is not able to handle the specified number of clients, try with {room}"
    error = f"ERR CONFIG SET failed (possibly related to argument 'maxclients') - {reason}"
    assert [b"maxclients", b"%d" % room] == told
    assert ErrorReply(error.encode()) == refused
    assert SimpleString(b"OK") == taken
