"""`maxmemory-clients`: what all clients hold together is bounded, and who holds most goes first."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import CommandError
from resp.clients.session import Session
from resp.resources import eviction
from resp.resources.memory import MemoryUse
from resp.settings.config import Config
from tests.resp.harness import Live, serving, until
from tests.wire.client import Client

MESSAGE = "m" * 1024 * 1024
LIMIT = "20mb"


async def listener(live: Live, channel: str, *, stays: bool = False) -> Client:
    """A client that has subscribed, and reads nothing from then on."""
    client = await live.client()
    if stays:
        await client.call("CLIENT", "NO-EVICT", "ON")
    await client.call("SUBSCRIBE", channel)
    client._reader._transport.pause_reading()  # type: ignore[attr-defined]  # the one way to be deaf
    return client


async def publish(live: Live, channel: str, messages: int) -> None:
    """So many messages of 1 MiB."""
    speaker = await live.client()
    for _ in range(messages):
        await speaker.call("PUBLISH", channel, MESSAGE)


async def evicted_clients(live: Live) -> int:
    """As INFO tells."""
    lines: bytes = await live.ask("INFO", "stats")
    return int(dict(line.split(b":", 1) for line in lines.split(b"\r\n") if b":" in line)[b"evicted_clients"])


async def test_who_holds_most_goes_and_the_others_stay(tmp_path: Path) -> None:
    """Two slow listeners hold more than all may: the one that holds more is disconnected, and counted."""
    async with serving(tmp_path, maxmemory_clients=LIMIT) as live:
        await listener(live, "small")
        await listener(live, "large")
        await publish(live, "small", 10)
        await publish(live, "large", 24)
        await until(lambda: 2 not in live.server.sessions)

        assert 1 in live.server.sessions
        assert 1 == await evicted_clients(live)


async def test_a_client_may_be_spared(tmp_path: Path) -> None:
    """CLIENT NO-EVICT: it stays, although it holds most, another one goes, and those that hold nothing stay too."""
    async with serving(tmp_path) as live:
        await listener(live, "small")
        await listener(live, "large", stays=True)
        operator = await live.client()
        await publish(live, "small", 10)
        await publish(live, "large", 28)
        # Not before, as the spared one alone holds more: whoever is just publishing would hold enough to go as well.
        await operator.call("CONFIG", "SET", "maxmemory-clients", LIMIT)
        await until(lambda: 1 not in live.server.sessions)
        eviction.evict(live.server.sessions.values(), live.server.config, live.server.stats)

        assert [2, 3, 4, 5] == list(live.server.sessions)


async def test_what_waits_to_run_counts_as_well(tmp_path: Path) -> None:
    """Commands behind one that blocks, and those of a MULTI, are held for a client like its replies."""
    async with serving(tmp_path) as live:
        blocked, queuing = await live.client(), await live.client()
        blocked.send(["BLPOP", "nothing", "0"], ["ECHO", "x" * 100_000])
        queuing.send(["MULTI"], ["SET", "a", "x" * 100_000])
        await until(lambda: all(each.held_bytes > 100_000 for each in live.server.sessions.values()))
        held = [each.held_bytes for each in live.server.sessions.values()]

        assert 2 == len(held)
        assert max(held) < 110_000


async def test_nobody_is_looked_at_while_the_process_is_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients hold no more than the process does; a share of the machine's memory is a bound like any other."""
    asked: list[Session] = []

    def held_bytes(session: Session) -> int:
        asked.append(session)
        return 0

    monkeypatch.setattr(Session, "held_bytes", property(held_bytes))
    async with serving(tmp_path) as live:
        await live.client()
        counts = []
        for rss_bytes, limit in ((100, b"50%"), (101, b"50%"), (101, b"0"), (101, b"102"), (101, b"100")):
            use = MemoryUse(rss_bytes, 0, 0, 200)
            monkeypatch.setattr(eviction, "memory_use", lambda use=use: use)
            live.server.config.set_many([(b"maxmemory-clients", limit)])
            asked.clear()
            eviction.evict(live.server.sessions.values(), live.server.config, live.server.stats)
            counts.append(len(asked))

    assert [0, 1, 0, 0, 1] == counts


def test_the_setting_is_bytes_or_a_share() -> None:
    """Shown as it was set; no share beyond the whole, and no other word."""
    config = Config()
    shown = []
    for text in (b"10%", b"1gb", b"0", b"100%"):
        config.set_many([(b"maxmemory-clients", text)])
        shown.append(config.show("maxmemory-clients"))

    assert ["10%", "1073741824", "0", "100%"] == shown
    for text in (b"101%", b"-1%", b"much", b"x%"):
        with pytest.raises(CommandError, match="memory"):
            config.set_many([(b"maxmemory-clients", text)])
