"""Dead letters are kept whole, with their reason, on both logs."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeAlias

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from structlog.testing import CapturingLogger

from ingest.dead_letters.dead_letter import DeadLetter, DeadLetters
from ingest.dead_letters.kafka_store import SUFFIX
from ingest.dead_letters.stores import open_dead_letters
from slotlog.log import Log
from slotlog.log.embedded.embedded_log import EmbeddedLog
from slotlog.log.log import ENTRY_BYTES_MAX
from slotlog.shared.limits import TIME_MS_MAX
from tests.faults.topics import Topic
from tests.slotlog.fixtures import OpenLog

OpenDead: TypeAlias = Callable[[Log], Awaitable[DeadLetters]]


@pytest.fixture
async def open_dead() -> AsyncIterator[OpenDead]:
    """Opens and starts the place of a log's dead letters; it is closed after the test."""
    opened: list[DeadLetters] = []

    async def open_and_start(log: Log) -> DeadLetters:
        opened.append(open_dead_letters(log))
        await opened[-1].start()
        return opened[-1]

    yield open_and_start
    for dead in opened:
        await dead.close()


def letter(offset: int, value: bytes | None = b"\xc1", reason: str = "no msgpack") -> DeadLetter:
    """A letter from partition 1."""
    return DeadLetter("t", 1, offset, 1_700_000_000_000, reason, b"\x00\x07", value)


async def test_kept_whole(log: Log, open_dead: OpenDead) -> None:
    """Key, value, headers, position, time and reason come back, also none, empty, binary and impossible ones."""
    letters = [
        letter(0),
        letter(1, None),
        letter(2, b"", "reason with ünïcode"),
        letter(3, bytes(range(256)))._replace(
            key=None, headers=(("trace", b"\xff"), ("slotlog.error", b"x"), ("n", None))
        ),
        letter(4)._replace(time_ms=TIME_MS_MAX + 1),
        letter(5)._replace(time_ms=-1),
    ]
    dead = await open_dead(log)
    await dead.store(letters)

    assert letters == await dead.read()


async def test_largest(log: Log, open_dead: OpenDead) -> None:
    """The largest record that the log takes fits into a letter."""
    dead = await open_dead(log)
    await dead.store([letter(0, b"x" * (ENTRY_BYTES_MAX - 2))])

    assert [b"x" * (ENTRY_BYTES_MAX - 2)] == [each.value for each in await dead.read()]


@pytest.mark.parametrize("open_one", ["kafka"], indirect=True)
async def test_larger_than_the_topic_takes(open_one: OpenLog, open_dead: OpenDead) -> None:
    """A letter beyond the topic's limit is cut, and says how large it was; small ones beside it are whole."""
    value = b"x" * 30_000_000
    dead = await open_dead(await open_one())
    await dead.store([letter(0), letter(1, value)._replace(headers=(("trace", b"abc"),)), letter(2)])
    found = {each.offset: each for each in await dead.read()}
    note = f"key 2 bytes; value 30000000 bytes, SHA-256 {hashlib.sha256(value).hexdigest()}; headers 8 bytes"

    assert (letter(0), letter(2)) == (found[0], found[2])
    assert (("trace", b"abc"), ("slotlog.truncated", note.encode())) == found[1].headers
    assert b"\x00\x07" == found[1].key
    assert found[1].value is not None
    assert value.startswith(found[1].value)
    assert len(found[1].value) > 4_000_000


@pytest.mark.parametrize("open_one", ["kafka"], indirect=True)
async def test_refused_as_too_large(open_one: OpenLog, open_dead: OpenDead, admin: AIOKafkaAdminClient) -> None:
    """Where somebody has lowered the topic's limit, what is refused is cut to what any topic takes."""
    log = await open_one()
    dead = await open_dead(log)
    await Topic(admin, log.topic + SUFFIX).configure(max_message_bytes="100000")
    await dead.store(
        [letter(0), letter(1, b"x" * 200_000)._replace(key=b"k" * 50_000, headers=(("h", b"h" * 50_000),))]
    )
    found = await dead.read()

    assert letter(0) == found[0]
    assert (b"k" * 8192, b"x" * 16384) == (found[1].key, found[1].value)
    assert ["slotlog.truncated"] == [name for name, _ in found[1].headers]


async def test_read_some(log: Log, open_dead: OpenDead) -> None:
    """Reading stops at the number asked for; an empty place has none."""
    dead = await open_dead(log)
    assert [] == await dead.read()
    await dead.store([letter(offset) for offset in range(5)])

    assert [0, 1, 2] == [each.offset for each in await dead.read(3)]


async def test_stored_again(open_one: OpenLog, open_dead: OpenDead) -> None:
    """A letter that is stored again, as after a crash, is one row in the table; in the topic the positions tell."""
    log = await open_one()
    dead = await open_dead(log)
    for _ in range(2):
        await dead.store([letter(7), letter(3)])
    positions = [(each.partition, each.offset) for each in await dead.read()]

    assert [(1, 3), (1, 7)] == (positions if isinstance(log, EmbeddedLog) else sorted(positions)[::2])


async def test_outlives_the_log_object(open_one: OpenLog, open_dead: OpenDead) -> None:
    """Letters are there after everything was closed and opened again."""
    log = await open_one()
    dead = await open_dead(log)
    await dead.store([letter(0)])
    await dead.close()
    await log.close()
    again = await open_dead(await open_one())

    assert [letter(0)] == await again.read()


@pytest.mark.parametrize("open_one", ["kafka"], indirect=True)
async def test_headers_for_other_tools(open_one: OpenLog, open_dead: OpenDead, kafka_bootstrap: str) -> None:
    """In Kafka any consumer finds the original bytes, and position, time and error as texts in the headers."""
    log = await open_one()
    dead = await open_dead(log)
    await dead.store([letter(7)._replace(headers=(("trace", b"abc"),))])
    await dead.close()
    async with AIOKafkaConsumer(bootstrap_servers=kafka_bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(log.topic + SUFFIX, 0)])
        record = await consumer.getone()

    assert (b"\x00\x07", b"\xc1") == (record.key, record.value)
    assert [
        ("trace", b"abc"),
        ("slotlog.error", b"no msgpack"),
        ("slotlog.topic", b"t"),
        ("slotlog.partition", b"1"),
        ("slotlog.offset", b"7"),
        ("slotlog.time", b"1700000000000"),
    ] == list(record.headers)


@pytest.mark.parametrize("open_one", ["kafka"], indirect=True)
async def test_what_others_wrote_is_passed_over(
    open_one: OpenLog, open_dead: OpenDead, kafka_bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A foreign record among the letters is named in the log, and the letters around it are read."""
    log = await open_one()
    dead = await open_dead(log)
    await dead.store([letter(0)])
    own = [(f"slotlog.{name}", b"1") for name in ("error", "topic", "partition", "offset", "time")]
    async with AIOKafkaProducer(bootstrap_servers=kafka_bootstrap) as producer:
        for headers in ([], [("slotlog.error", b"x")], own[::-1], [*own[:-1], ("slotlog.time", b"noon")]):
            await producer.send_and_wait(log.topic + SUFFIX, b"foreign", headers=headers)
    await dead.store([letter(1)])
    said = CapturingLogger()
    monkeypatch.setattr("ingest.dead_letters.kafka_store.logger", said)

    assert [letter(0), letter(1)] == await dead.read()
    assert [1, 2, 3, 4] == [call.kwargs["offset"] for call in said.calls]


async def test_log_that_may_not_be_created(open_one: OpenLog, open_dead: OpenDead) -> None:
    """Where a missing log is a loss, its dead letters still have a place: none of them is lost with it."""
    await open_one()
    dead = await open_dead(await open_one(create=False))
    await dead.store([letter(0)])

    assert [letter(0)] == await dead.read()


def test_unknown_log() -> None:
    """There is no place for the letters of a log of another kind."""
    with pytest.raises(TypeError, match="no place for dead letters"):
        open_dead_letters(object())  # type: ignore[arg-type]
