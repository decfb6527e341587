"""Streams as real servers dump them: the same entries, groups and pending entries, and what we write back."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from engine.values import streams
from engine.values.rdb.encode import seal
from engine.values.rdb.errors import FormatError, TooLargeError
from engine.values.rdb.reader import PayloadReader
from engine.values.rdb.stream_encoding import VERSIONS, oldest_kind, pack, pack_state
from engine.values.rdb.streams import OLDEST, WITH_ACTIVE_TIMES, WITH_COUNTERS, read_parts
from engine.values.streams import (
    NEVER,
    UNKNOWN,
    ZERO_ID,
    PendingEntry,
    StreamConsumer,
    StreamEntry,
    StreamGroup,
    StreamPart,
    StreamState,
)
from tests.engine.values.rdb.packing import listpack, raw
from tests.real.oracle import Connection

ANY_FIELDS = [b"a", b"b", b"7", b"-70000", b"x" * 70, b""]


def stream_id(ms: int, seq: int) -> bytes:
    """An id as bytes."""
    return ms.to_bytes(8) + seq.to_bytes(8)


def of_text(text: bytes) -> bytes:
    """The id that a reply shows."""
    ms, seq = text.split(b"-")
    return stream_id(int(ms), int(seq))


def read(payload: bytes) -> StreamPart:
    """The whole stream of a payload."""
    return streams.joined(read_parts(payload[0], PayloadReader(payload[1:-10])))


def payload_of(stream: StreamPart, kind: int) -> bytes:
    """The payload of a whole stream."""
    return seal([bytes((kind,)), *pack(kind, stream)], VERSIONS[kind])


def of_oracle(oracle: Connection, key: str) -> StreamPart:
    """The stream that the oracle shows."""
    shown = pairs(oracle.call("XINFO", "STREAM", key, "FULL", "COUNT", 0))
    groups = []
    for group in map(pairs, shown[b"groups"]):
        read_by_group = group[b"entries-read"]
        pending = [
            PendingEntry(of_text(entry), consumer, delivered_ms, count)
            for entry, consumer, delivered_ms, count in group[b"pending"]
        ]
        consumers = [
            StreamConsumer(each[b"name"], each[b"seen-time"], each.get(b"active-time", each[b"seen-time"]))
            for each in map(pairs, group[b"consumers"])
        ]
        last_id = of_text(group[b"last-delivered-id"])
        entries_read = UNKNOWN if read_by_group is None else read_by_group
        groups.append(StreamGroup(group[b"name"], last_id, entries_read, consumers, pending))
    state = StreamState(
        of_text(shown[b"last-generated-id"]), of_text(shown[b"max-deleted-entry-id"]), shown[b"entries-added"], groups
    )
    return StreamPart([StreamEntry(of_text(entry), texts) for entry, texts in shown[b"entries"]], state)


def pairs(flat: list[Any]) -> dict[bytes, Any]:
    """A map that RESP2 shows as a list."""
    return dict(zip(flat[::2], flat[1::2], strict=True))


def fill(oracle: Connection, key: str, random: Random, count: int) -> None:
    """Make a stream by `count` random commands, with groups whose names need not be in order."""
    ms, seq = random.choice([0, 1000, 2**63]), 1
    groups = [b"g", b"12", b"a" * 20]
    consumers = [b"c", b"\xff", b"3"]
    oracle.call("DEL", key)
    oracle.call("XGROUP", "CREATE", key, groups[0], "0", "MKSTREAM")
    added: list[bytes] = []
    for _ in range(count):
        group, consumer = random.choice(groups), random.choice(consumers)
        some = random.choice(added or [b"5-5"])
        kind = random.randrange(12)
        if kind < 6:
            fields = random.choice([[b"a", b"b"], random.choices(ANY_FIELDS, k=random.randrange(1, 4))])
            texts = [word for field in fields for word in (field, random.choice(ANY_FIELDS))]
            ms += random.choice([0, 1, 1000])
            seq = random.choice([seq + 1, 2**64 - 1 if seq < 2**63 and random.random() < 0.1 else seq + 2])
            if seq > 2**64 - 4:
                ms, seq = ms + 1, 0
            added.append(b"%d-%d" % (ms, seq))
            oracle.call("XADD", key, added[-1], *texts)
        elif kind == 6:
            oracle.call("XDEL", key, some)
        elif kind == 7:
            oracle.call("XGROUP", "CREATE", key, group, random.choice([b"0", b"$", some]))
        elif kind == 8:
            oracle.call("XGROUP", "CREATECONSUMER", key, group, consumer)
        elif kind == 9:
            oracle.call("XCLAIM", key, group, consumer, 0, some, "TIME", 5, "RETRYCOUNT", 7)
        else:
            oracle.call("XREADGROUP", "GROUP", group, consumer, "COUNT", random.randrange(1, 9), "STREAMS", key, ">")
    if random.random() < 0.2:
        oracle.call("XTRIM", key, "MAXLEN", random.choice([0, 2]))


@pytest.mark.parametrize("seed", range(30))
def test_streams_of_the_oracle_are_read_and_written(seed: int, oracle: Connection) -> None:
    """A random stream is read as the oracle shows it; what is written of it is the same stream to the oracle."""
    random = Random(seed)
    oracle.call("CONFIG", "SET", "rdbcompression", random.choice(["yes", "no"]))
    fill(oracle, "s", random, random.choice([3, 40, 400]))
    expected = of_oracle(oracle, "s")

    actual = read(oracle.call("DUMP", "s"))

    assert expected == actual
    assert b"OK" == oracle.call("RESTORE", "t", 0, payload_of(actual, WITH_ACTIVE_TIMES), "REPLACE").text
    assert expected == of_oracle(oracle, "t")
    oracle.call("CONFIG", "SET", "rdbcompression", "yes")


@pytest.mark.parametrize("seed", range(10))
def test_streams_of_redis_7_0_are_read_and_written(seed: int, redis: Connection) -> None:
    """It has no times of success, and takes the form that has none."""
    fill(redis, "s", Random(seed), 100)
    expected = of_oracle(redis, "s")

    actual = read(redis.call("DUMP", "s"))

    assert expected == actual
    assert b"OK" == redis.call("RESTORE", "t", 0, payload_of(actual, WITH_COUNTERS), "REPLACE").text
    assert expected == of_oracle(redis, "t")


def test_a_long_stream_fills_nodes_as_the_oracle_does(oracle: Connection) -> None:
    """A node takes 100 entries, or about 4 KiB: what is written has no more bytes than what the oracle writes."""
    oracle.call("CONFIG", "SET", "rdbcompression", "no")
    oracle.call("DEL", "s")
    oracle.pipeline(("XADD", "s", f"{number}-0", "field", f"value {number}") for number in range(1, 2001))
    payload = oracle.call("DUMP", "s")
    oracle.call("CONFIG", "SET", "rdbcompression", "yes")

    assert payload[:-10] == payload_of(read(payload), WITH_ACTIVE_TIMES)[:-10]


ENTRY = StreamEntry(stream_id(5, 1), [b"f", b"v"])
STREAM = StreamPart(
    [ENTRY, StreamEntry(stream_id(5, 2), [b"f", b"w"])],
    StreamState(
        stream_id(9, 0),
        stream_id(4, 0),
        7,
        [
            StreamGroup(
                b"g",
                stream_id(5, 1),
                3,
                [StreamConsumer(b"c", 40, 30), StreamConsumer(b"d", 50, NEVER)],
                [PendingEntry(stream_id(5, 1), b"c", 30, 1)],
            )
        ],
    ),
)


def test_older_servers_know_less() -> None:
    """The form before Redis 7 has no counters and no times of success; that of Redis 7.0 has counters."""
    assert STREAM.state is not None
    (group,) = STREAM.state.groups
    consumers = [StreamConsumer(b"c", 40, 40), StreamConsumer(b"d", 50, 50)]
    state = StreamState(stream_id(9, 0), stream_id(4, 0), 7, [group._replace(consumers=consumers)])
    oldest = StreamState(stream_id(9, 0), ZERO_ID, 2, [group._replace(consumers=consumers, entries_read=1)])

    assert STREAM == read(payload_of(STREAM, WITH_ACTIVE_TIMES))
    assert StreamPart(STREAM.entries, state) == read(payload_of(STREAM, WITH_COUNTERS))
    assert StreamPart(STREAM.entries, oldest) == read(payload_of(STREAM, OLDEST))
    assert [WITH_ACTIVE_TIMES, WITH_COUNTERS] == [oldest_kind(StreamPart([], each)) for each in (STREAM.state, state)]


@pytest.mark.parametrize("kind", VERSIONS)
def test_the_oracle_reads_every_form(kind: int, oracle: Connection) -> None:
    """What is read of a payload of ours is what the oracle reads of it."""
    payload = payload_of(STREAM, kind)

    assert b"OK" == oracle.call("RESTORE", "s", 0, payload, "REPLACE").text
    assert of_oracle(oracle, "s") == read(payload)


def node(master: bytes, *elements: int | bytes) -> bytes:
    """One listpack with the id before it."""
    return raw(master) + raw(listpack([b"%d" % each if isinstance(each, int) else each for each in elements]))


MASTER = stream_id(5, 1)
TWO_ENTRIES: list[int | bytes] = [2, 0, 0, b"v", 4] * 2
GOOD_NODE = node(MASTER, 1, 0, 1, b"f", 0, 2, 0, 0, b"v", 4)
GOOD_STATE = b"".join(pack_state(WITH_ACTIVE_TIMES, StreamState(stream_id(9, 0), ZERO_ID, 7, []), 1, MASTER))
GROUP_HEAD = GOOD_STATE[:-1]
PENDING = MASTER + bytes(8) + b"\x01"
TIMES = bytes(16)

BROKEN = {
    "an id of another length": b"\x01" + node(b"short", 1, 0, 1, b"f", 0, 2, 0, 0, b"v", 4) + GOOD_STATE,
    "no elements": b"\x01" + raw(MASTER) + raw(listpack([])) + GOOD_STATE,
    "no entry": b"\x01" + node(MASTER, 0, 0, 1, b"f", 0) + GOOD_STATE,
    "no number of entries": b"\x01" + node(MASTER, b"x", 0, 1, b"f", 0, 2, 0, 0, b"v", 4) + GOOD_STATE,
    "a negative number of fields": b"\x01" + node(MASTER, 1, 0, -1, b"f", 0, 2, 0, 0, b"v", 4) + GOOD_STATE,
    "more fields than there are": b"\x01" + node(MASTER, 1, 0, 100, b"f", 0, 2, 0, 0, b"v", 4) + GOOD_STATE,
    "no end of the master": b"\x01" + node(MASTER, 1, 0, 1, b"f", 1, 2, 0, 0, b"v", 4) + GOOD_STATE,
    "fewer entries than promised": b"\x01" + node(MASTER, 2, 0, 1, b"f", 0, 2, 0, 0, b"v", 4) + GOOD_STATE,
    "more entries than promised": b"\x01" + node(MASTER, 1, 0, 1, b"f", 0, *TWO_ENTRIES) + GOOD_STATE,
    "another number of elements": b"\x01" + node(MASTER, 1, 0, 1, b"f", 0, 2, 0, 0, b"v", 5) + GOOD_STATE,
    "an entry without fields": b"\x01" + node(MASTER, 1, 0, 0, 0, 2, 0, 0, 3) + GOOD_STATE,
    "negative fields of an entry": b"\x01" + node(MASTER, 1, 0, 1, b"f", 0, 0, 0, 0, -2, 0, 0) + GOOD_STATE,
    "an id twice": b"\x01" + node(MASTER, 2, 0, 1, b"f", 0, *TWO_ENTRIES) + GOOD_STATE,
    "a node twice": b"\x02" + GOOD_NODE * 2 + GOOD_STATE,
    "another length": b"\x01" + GOOD_NODE + b"\x02" + GOOD_STATE[1:],
    "a last id below an entry": b"\x01" + GOOD_NODE + b"\x01\x04" + GOOD_STATE[2:],
    "fewer entries added than there are": b"\x01" + GOOD_NODE + GOOD_STATE[:-2] + b"\x00\x00",
    "cut off": b"\x01" + GOOD_NODE + GOOD_STATE[:-1],
    "fewer groups than promised": b"\x01" + GOOD_NODE + GROUP_HEAD + b"\x05",
    "a group twice": b"\x01" + GOOD_NODE + GROUP_HEAD + b"\x02" + b"\x01g\x00\x00\x00\x00\x00" * 2,
    "a group that has read less than nothing": b"\x01"
    + GOOD_NODE
    + GROUP_HEAD
    + b"\x01\x01g\x00\x00\x81"
    + b"\xff" * 7
    + b"\xfe\x00\x00",
    "a pending entry without consumer": b"\x01"
    + GOOD_NODE
    + GROUP_HEAD
    + b"\x01\x01g\x00\x00\x00\x01"
    + PENDING
    + b"\x00",
    "a pending entry twice": b"\x01"
    + GOOD_NODE
    + GROUP_HEAD
    + b"\x01\x01g\x00\x00\x00\x02"
    + PENDING * 2
    + b"\x01\x01c"
    + TIMES
    + b"\x01"
    + MASTER,
    "a pending entry of the consumer alone": b"\x01"
    + GOOD_NODE
    + GROUP_HEAD
    + b"\x01\x01g\x00\x00\x00\x00\x01\x01c"
    + TIMES
    + b"\x01"
    + MASTER,
    "a pending entry of two consumers": b"\x01"
    + GOOD_NODE
    + GROUP_HEAD
    + b"\x01\x01g\x00\x00\x00\x01"
    + PENDING
    + b"\x02"
    + b"".join(b"\x01" + name + TIMES + b"\x01" + MASTER for name in (b"c", b"d")),
    "a consumer twice": b"\x01"
    + GOOD_NODE
    + GROUP_HEAD
    + b"\x01\x01g\x00\x00\x00\x00\x02"
    + (b"\x01c" + TIMES + b"\x00") * 2,
    "a consumer before the epoch": b"\x01"
    + GOOD_NODE
    + GROUP_HEAD
    + b"\x01\x01g\x00\x00\x00\x00\x01\x01c"
    + b"\xfe"
    + b"\xff" * 7
    + bytes(8)
    + b"\x00",
}


def test_the_parts_of_broken_streams_are_good() -> None:
    """What the broken ones are made of is a stream."""
    assert 1 == len(read(seal([b"\x15\x01", GOOD_NODE, GOOD_STATE], 11)).entries)
    group = b"\x01\x01g\x00\x00\x00\x01" + PENDING + b"\x01\x01c" + TIMES + b"\x01" + MASTER
    state = read(seal([b"\x15\x01", GOOD_NODE, GROUP_HEAD, group], 11)).state
    assert [PendingEntry(MASTER, b"c", 0, 1)] == (state.groups[0].pending if state else [])


@pytest.mark.parametrize("name", BROKEN)
def test_broken_streams_are_refused(name: str) -> None:
    """Whatever is wrong, it is a FormatError."""
    with pytest.raises(FormatError):
        read(seal([b"\x15", BROKEN[name]], 11))


def test_any_bytes_are_a_stream_or_refused() -> None:
    """Of payloads with bytes changed at random nothing but the errors of the reader comes out."""
    random = Random(9)
    good = payload_of(STREAM, WITH_ACTIVE_TIMES)[1:-10]
    refused = 0
    for _ in range(20_000):
        value = bytearray(good)
        for _ in range(random.choice((1, 1, 2, 4))):
            at = random.randrange(len(value))
            if random.random() < 0.8:
                value[at] = random.choice((0, 1, 2, 0x7F, 0x80, 0x81, 0xFF, random.randrange(256)))
            else:
                del value[at]
        try:
            read(seal([b"\x15", bytes(value)], 11))
        except (FormatError, TooLargeError):
            refused += 1

    assert 5_000 < refused < 20_000


def test_what_is_read_of_changed_bytes_the_oracle_reads_too(oracle: Connection) -> None:
    """A payload that passes is one that the oracle takes, and it shows the same stream."""
    random = Random(10)
    good = payload_of(STREAM, WITH_ACTIVE_TIMES)[1:-10]
    kept = 0
    for _ in range(4_000):
        value = bytearray(good)
        value[random.randrange(len(value))] = random.choice((0, 1, 2, 5, 0x7F, 0x81, random.randrange(256)))
        payload = seal([b"\x15", bytes(value)], 11)
        try:
            expected = read(payload)
        except FormatError:
            continue
        assert b"OK" == oracle.call("RESTORE", "s", 0, payload, "REPLACE").text, payload
        assert expected == of_oracle(oracle, "s"), payload
        kept += 1

    assert kept > 300
