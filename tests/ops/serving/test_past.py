"""The past over RESP: a running service answers as of a moment, beside its live state."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from engine.errors import CommandError
from ops.config import Settings, load_settings
from ops.past.answering import Read
from ops.past.kept import KeptStates
from ops.past.offsets.index_file import BLOCK_OFFSETS, IndexFile
from ops.past.offsets.offset_index import extend
from ops.serving.past import PastProcess
from ops.state.rebuilding.replay_plan import Until, opened
from tests.ops.past.logs import START_MS, random_entries, write_log
from tests.ops.serving.test_service_resp import Service
from tests.real.oracle import ErrorReply
from tests.wire.client import Client

LINES = (
    (0, "SET", ["name", "Ann"]),
    (10, "HSET", ["user", "city", "Ghent"]),
    (20, "SET", ["name", "Bo"]),
    (40, "DEL", ["user"]),
)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Of a log of four events, and no state."""
    return load_settings(data=write_log(tmp_path / "data", LINES))


@pytest.fixture
def random_log(tmp_path: Path) -> Settings:
    """Of a log of random commands."""
    return load_settings(data=write_log(tmp_path / "data", random_entries(seed=5, commands=200)))


def read(moment: str, *words: str) -> Read:
    """A question."""
    name, *args = (word.encode() for word in words)
    return Read(0, moment, name, args, 0)


async def test_a_client_looks_around_in_the_past(settings: Settings) -> None:
    """Single reads, a connection as of a moment, errors; the live state, and other connections, go on."""
    data = settings.data
    with Service(data) as service:
        client, other = [await Client.connect(service.address) for _ in range(2)]

        async def call(*words: str) -> Any:
            return await client.call(*words)

        single = [
            await call("SLOTLOG", "AT", moment, *words)
            for moment, *words in (("1", "GET", "name"), (f"@{START_MS + 21}", "GET", "name"), ("2", "DBSIZE"))
        ]
        begun = await call("SLOTLOG", "ASOF", "2023-11-14T22:13:20.040Z")
        then = [await call("HGETALL", "user"), await call("KEYS", "*"), await call("TYPE", "user")]
        refused = await call("SET", "name", "x")
        written = await other.call("SET", "name", "Cy")
        await call("SLOTLOG", "ASOF", "NOW")
        now = [await call("GET", "name"), await call("EXISTS", "user"), await call("SLOTLOG", "AT", "3", "GET", "name")]
        wrong = [await call("SLOTLOG", "AT", moment, "GET", "name") for moment in ("99", "soon")]
        wrong.append(await call("SLOTLOG", "ASOF", "soon"))
        wrong.append(await call("SLOTLOG", "AT", "1", "LLEN", "name"))
        rows = await call("SLOTLOG", "HISTORY", "name", "COUNT", "2", "VALUES")
        wrong.append(await call("SLOTLOG", "HISTORY", "name", "UNTIL", "soon"))
        for each in (client, other):
            each.close()
        assert 0 == service.terminate()

    assert [b"Ann", b"Bo", 2] == single
    assert (b"OK", [[b"city", b"Ghent"], [b"name", b"user"], b"hash"]) == (
        begun.text,
        [then[0], sorted(then[1]), then[2].text],
    )
    assert isinstance(refused, ErrorReply)
    assert b"OK" == written.text
    assert [b"Cy", 0, b"Bo"] == now
    assert [
        b"ERR offset 99 is beyond the log's end at offset 5; a time in milliseconds is written @99",
        b"ERR the moment 'soon' is neither an offset nor an ISO 8601 time nor @MILLISECONDS",
        b"ERR the moment 'soon' is neither an offset nor an ISO 8601 time nor @MILLISECONDS",
        b"WRONGTYPE Operation against a key holding the wrong kind of value",
        b"ERR UNTIL 'soon' is neither an offset nor an ISO 8601 time nor @MILLISECONDS",
    ] == [each.text for each in wrong]
    assert not (data / "scratch").exists()
    maps = [dict(zip(row[::2], row[1::2], strict=True)) for row in rows]
    assert [(2, START_MS + 20), (4, maps[1][b"time_ms"])] == [(row[b"offset"], row[b"time_ms"]) for row in maps]
    assert [b"SET", b"name", b"Cy"] == maps[1][b"command"]
    assert [b"type", b"string", b"value", b"Bo", b"expire_ms", -1] == maps[1][b"before"]


async def test_states_are_kept_and_bounded(random_log: Settings) -> None:
    """A second read of a moment takes what is kept, a later one goes on from it, and only so many stay on the disk."""
    settings = random_log
    states = KeptStates(settings, states_max=2)
    try:
        first = await states.at(0, Until(offset=50))
        again = await states.at(0, Until(offset=50))
        further = await states.at(0, Until(offset=90))
        earlier = await states.at(0, Until(offset=20))
        assert first is again
        assert [0, 50, 0] == [each.begin for each in (first, further, earlier)]
        assert [90, 20] == [each.machine.next_offset for each in (further, earlier)]
        assert 2 == len([path for path in (settings.data / "scratch").iterdir() if path.is_dir()])
    finally:
        await states.close()
    assert not (settings.data / "scratch").exists()


async def test_a_key_is_read_from_its_own_events(random_log: Settings) -> None:
    """A read that names keys makes no whole state; where one is kept of that moment, it is asked."""
    states = KeptStates(random_log)
    try:
        alone = await states.read(0, Until(offset=60), b"TYPE", [b"s1"], 0)
        assert not (random_log.data / "scratch").exists()
        counted = await states.read(0, Until(offset=60), b"DBSIZE", [], 0)
        assert (alone, True) == (await states.read(0, Until(offset=60), b"TYPE", [b"s1"], 0), counted > 0)
    finally:
        await states.close()


async def test_a_full_disk_is_left_alone(settings: Settings) -> None:
    """No state is made where the disk has less than the reserve: the service needs that for what is new."""
    states = KeptStates(settings.model_copy(update={"free_bytes_min": 1 << 62}))
    with pytest.raises(Exception, match="less than the reserve"):
        await states.at(0, Until(offset=2))
    await states.close()


async def test_the_process_begins_again(settings: Settings) -> None:
    """One that was ended, or whose asker went away, leaves nothing; the next question begins another."""
    past = PastProcess(settings)
    assert b"Ann" == await past.ask(read("1", "GET", "name"))
    asked = asyncio.create_task(past.ask(read("2", "GET", "name")))
    await asyncio.sleep(0)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    both = await asyncio.gather(*(past.ask(read(moment, "GET", "name")) for moment in ("2", "3")))
    assert [b"Ann", b"Bo"] == both
    with pytest.raises(CommandError, match="wrong number of arguments"):
        await past.ask(read("1", "GET"))
    past.close()


async def test_an_idle_process_ends(settings: Settings) -> None:
    """When nobody asks for a while it ends, and what it kept is removed."""
    past = PastProcess(settings, idle_seconds=0.01)
    assert b"Ann" == await past.ask(read("1", "GET", "name"))
    async with asyncio.timeout(60):
        while (settings.data / "scratch").exists():  # noqa: ASYNC110 - nobody is told
            await asyncio.sleep(0.01)
    assert b"Ann" == await past.ask(read("1", "GET", "name"))
    past.close()


async def test_so_many_may_wait(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """More questions than may wait are refused at once, and nothing is read for them."""
    monkeypatch.setattr("ops.serving.past.QUESTIONS_MAX", 1)
    past = PastProcess(settings)
    first = asyncio.create_task(past.ask(read("1", "GET", "name")))
    await asyncio.sleep(0)
    with pytest.raises(CommandError, match="wait already"):
        await past.ask(read("1", "GET", "name"))
    assert b"Ann" == await first
    past.close()


@pytest.fixture
def long_log(tmp_path: Path) -> Settings:
    """Of a log of a little more than a block of the index."""
    lines = [(at, "INCR", ["n"]) for at in range(BLOCK_OFFSETS + 10)]
    return load_settings(data=write_log(tmp_path / "data", lines), past={"index_seconds": 0.2})


async def test_the_index_is_added_to(long_log: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole blocks of offsets are added, some at a time, so that a look back reads few events."""
    settings = long_log
    monkeypatch.setattr("ops.past.offsets.offset_index.BLOCK_OFFSETS", 8192)
    log = opened(settings)
    await log.start()
    left = [await extend(settings, log, 0, 64) for _ in range(5)]
    await log.close()
    file = IndexFile(settings.data / "offsets" / "0")
    bounds = [(block.begin, block.end) for block in file.blocks]
    file.close()

    assert ([24576, 16384, 8192, 0, 0], [(at, at + 8192) for at in range(0, 32768, 8192)]) == (left, bounds)


async def test_a_service_keeps_the_index(long_log: Settings) -> None:
    """Where it is told to, the process that reads the past adds to it without a question; errors do not end that."""
    past = PastProcess(long_log)
    keeping = asyncio.create_task(past.keep_index({0: None, 7: None}))  # there is no partition 7
    path = long_log.data / "offsets" / "0"
    async with asyncio.timeout(120):
        while not path.exists() or not path.stat().st_size:  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(0.05)
    assert not keeping.done()
    keeping.cancel()
    await asyncio.wait((keeping,))
    past.close()
