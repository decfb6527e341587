"""Clients that do not read their replies are disconnected past a limit of size or time."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from ingest.reporting import rate_limited
from ingest.reporting.rate_limited import RateLimitedLog
from resp.clients import authorization, connection
from tests.resp.harness import Live, serving, until
from tests.wire.client import Client

MESSAGE: Final = "m" * 1024 * 1024
MESSAGES: Final = 24  # more than the sockets on both sides hold


async def deaf_listener(live: Live) -> Client:
    """A client that has subscribed, and reads nothing; then there is a lot for it."""
    listener, speaker = await live.client(), await live.client()
    await listener.call("SUBSCRIBE", "c")
    listener._reader._transport.pause_reading()  # type: ignore[attr-defined]  # the one way to be deaf
    for _ in range(MESSAGES):
        await speaker.call("PUBLISH", "c", MESSAGE)
    return listener


async def test_a_listener_above_the_soft_limit_is_cut_off(tmp_path: Path) -> None:
    """More than the soft limit for longer than its time: that client goes, and is counted."""
    async with serving(tmp_path, client_output_buffer_limit="pubsub 0 1000000 1") as live:
        await deaf_listener(live)
        waiting = live.server.sessions[1].output_bytes
        await until(lambda: 1 not in live.server.sessions)

        assert waiting > 1_000_000
        assert ([2], 1) == (list(live.server.sessions), live.server.stats.output_limit_disconnections)


async def test_a_listener_below_the_soft_limit_is_let_be(tmp_path: Path) -> None:
    """As much again as waits is allowed: nobody is cut off, however long it takes."""
    async with serving(tmp_path, client_output_buffer_limit="pubsub 0 50000000 1") as live:
        await deaf_listener(live)
        authorization.cut_off(live.server)
        session = live.server.sessions[1]

        assert 0 < session.output_bytes < 50_000_000
        assert (0.0, 0) == (session.over_soft_limit_since, live.server.stats.output_limit_disconnections)


async def test_a_client_that_never_reads_its_replies_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing more is run for it once enough waits; when it does not read for a while, it goes."""
    monkeypatch.setattr(connection, "_WRITE_HIGH_WATER", 64 * 1024)
    monkeypatch.setattr(authorization, "_CHOKED_SECONDS_MAX", 0.3)
    async with serving(tmp_path) as live:
        deaf, other = await live.client(), await live.client()
        await other.call("SET", "big", MESSAGE)
        deaf._reader._transport.pause_reading()  # type: ignore[attr-defined]  # as above
        deaf.send(*[["GET", "big"]] * 200)
        await until(lambda: live.server.sessions[1].choked)
        waiting = live.server.sessions[1].output_bytes
        await until(lambda: 1 not in live.server.sessions)

        assert waiting < 20 * len(MESSAGE)
        assert ([2], 1) == (list(live.server.sessions), live.server.stats.output_limit_disconnections)


def test_lines_come_once_in_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first is written at once, then one a second, which says how many it stands for."""
    now = 10.0
    monkeypatch.setattr(rate_limited, "monotonic", lambda: now)
    line = RateLimitedLog(1.0)
    counts = [line.count(), line.count(), line.count(5)]
    now = 11.0
    counts += [line.count(), line.count(0)]

    assert [1, 0, 0, 7, 0] == counts
