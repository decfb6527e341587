"""Payloads by hand, byte for byte: encodings of older servers and of Redis 7.4, and what is refused."""

from __future__ import annotations

import pytest

from engine.limits import RESTORED_BYTES_MAX, STRING_BYTES_MAX
from engine.model import HASH, LIST, SET, STRING, ZSET
from engine.values.rdb.content import Content
from engine.values.rdb.decode import decode
from engine.values.rdb.encode import encode, pack_length, pack_string, seal
from engine.values.rdb.errors import FormatError, TooLargeError, UnsupportedError, VersionError
from engine.values.rdb.reader import decompress
from slotlog.shared.limits import ARGUMENTS_MAX
from tests.differential.payloads import in_order
from tests.engine.values.rdb.packing import intset, listpack, of_oracle, raw, ziplist
from tests.real.oracle import Connection

TEXTS = [b"a", b"5", b"-1", b"13", b"200", b"70000", b"-8000000", b"%d" % 2**40, b"x" * 70, b"y" * 300, b"z" * 20_000]
TIME_MS = 4_102_444_800_000

OLD = {
    "list": (b"\x01" + pack_length(len(TEXTS)) + b"".join(map(raw, TEXTS)), (LIST, TEXTS)),
    "ziplist of a list": (b"\x0a" + raw(ziplist(TEXTS)), (LIST, TEXTS)),
    "quicklist of ziplists": (
        b"\x0e\x03" + raw(ziplist(TEXTS[:4])) + raw(ziplist([])) + raw(ziplist(TEXTS[4:])),
        (LIST, TEXTS),
    ),
    "quicklist of both nodes": (
        b"\x12\x03\x02" + raw(listpack([b"a", b"-7"])) + b"\x01\x03bcd\x02" + raw(listpack([])),
        (LIST, [b"a", b"-7", b"bcd"]),
    ),
    "ziplist of a hash": (b"\x0d" + raw(ziplist([b"f", b"v", b"7", b"w"])), (HASH, [(b"7", b"w", 0), (b"f", b"v", 0)])),
    "ziplist of a sorted set": (
        b"\x0c" + raw(ziplist([b"f", b"1", b"g", b"2.5", b"7", b"inf"])),
        (ZSET, [(1.0, b"f"), (2.5, b"g"), (float("inf"), b"7")]),
    ),
    "zipmap": (
        b"\x09" + raw(b"\x02\x01f\x02\x00vv\xfe\x2c\x01\x00\x00" + b"g" * 300 + b"\x01\x03wxxx\xff"),
        (HASH, [(b"f", b"vv", 0), (b"g" * 300, b"w", 0)]),
    ),
    "sorted set with scores as text": (
        b"\x03\x03\x01a\x033.5\x01b\xfe\x01c\xff",
        (ZSET, [(float("-inf"), b"c"), (3.5, b"a"), (float("inf"), b"b")]),
    ),
    "intset of 2 bytes": (b"\x0b" + raw(intset([-300, 5], 2)), (SET, [b"-300", b"5"])),
    "intset of 8 bytes": (b"\x0b" + raw(intset([-(2**40), 2**40], 8)), (SET, [b"%d" % -(2**40), b"%d" % 2**40])),
    "integers": (b"\x02\x03\xc0\xff\xc1\x00\x80\xc2\xff\xff\xff\x7f", (SET, [b"-1", b"-32768", b"2147483647"])),
    "a length of 64 bits": (b"\x00\x81\x00\x00\x00\x00\x00\x00\x00\x02ab", (STRING, [b"ab"])),
}
"""Type and value, and what they are."""


@pytest.mark.parametrize("version", [1, 6, 9, 11, 12, 80])
@pytest.mark.parametrize("name", OLD)
def test_older_encodings_are_read(name: str, version: int, oracle: Connection) -> None:
    """Each has its content, under every RDB version; the oracle reads the same, which only refuses Redis 7.4's."""
    value, expected = OLD[name]
    payload = seal([value], version)

    assert expected == in_order(decode(payload))
    if version != 12:
        assert b"OK" == oracle.call("RESTORE", "k", 0, payload, "REPLACE").text
        assert expected == of_oracle(oracle, b"k")


TRIPLES = [b"f", b"v", b"%d" % TIME_MS, b"g", b"w", b"0"]
OF_REDIS_7_4 = {
    22: b"\x02\x81" + TIME_MS.to_bytes(8, "big") + b"\x01f\x01v\x00\x01g\x01w",
    23: raw(listpack(TRIPLES)),
    24: (TIME_MS - 9).to_bytes(8, "little") + b"\x02\x0a\x01f\x01v\x00\x01g\x01w",
    25: TIME_MS.to_bytes(8, "little") + raw(listpack(TRIPLES)),
}


@pytest.mark.parametrize("kind", OF_REDIS_7_4)
def test_hashes_of_redis_7_4_are_read(kind: int) -> None:
    """A field with a time to live and one without, in the four encodings of its release and its candidates."""
    payload = seal([bytes((kind,)), OF_REDIS_7_4[kind]], 12)

    assert Content(HASH, [b"f", b"v", b"g", b"w"], expires_ms=[TIME_MS, 0]) == decode(payload)


def test_22_is_another_type_in_valkey() -> None:
    """The same number is Valkey 9's hash with times to live, whose fields come first and whose -1 is never."""
    value = b"\x16\x02\x01f\x01v" + TIME_MS.to_bytes(8, "little") + b"\x01g\x01w" + b"\xff" * 8
    expected = Content(HASH, [b"f", b"v", b"g", b"w"], expires_ms=[TIME_MS, 0])

    assert expected == decode(seal([value], 80))
    assert seal([value], 80) == encode(expected)


def test_a_time_at_the_epoch_is_none_that_never_comes() -> None:
    """Valkey takes a time of 0 ms, which is due; a content's 0 means never."""
    value = b"\x16\x01\x01f\x01v" + bytes(8)

    assert Content(HASH, [], expires_ms=()) == decode(seal([value], 80)).without_due_fields(5)


@pytest.mark.parametrize(("number", "size"), [(0, 2), (127, 2), (-129, 3), (32768, 5), (2**31 - 1, 5), (2**31, 11)])
def test_short_integers_are_packed(number: int, size: int) -> None:
    """A string that is an integer of 8, 16 or 32 bits takes that and one byte more, as in Redis."""
    assert size == len(pack_string(b"%d" % number))


def test_the_same_content_gives_the_same_bytes() -> None:
    """And these are they, so that they do not change by chance."""
    assert b"\x05\x01\x01a\x00\x00\x00\x00\x00\x00\xf8?\t\x00" == encode(Content(ZSET, [b"a"], [1.5]))[:-8]


BROKEN = {
    "nothing": b"",
    "a type alone": b"\x00",
    "an unknown type": b"\x63\x01a",
    "an unknown length": b"\x00\x82\x00\x00\x00\x01a",
    "an unknown string": b"\x00\xc4\x01",
    "cut off": b"\x00\x05abc",
    "no members": b"\x02\x00",
    "fewer members than promised": b"\x02\x03\x01a\x01b",
    "members without end": b"\x02\x81" + b"\xff" * 8 + b"\x01a",
    "a member twice": b"\x02\x02\x01a\x01a",
    "a field twice": b"\x04\x02\x01a\x01b\x01a\x01c",
    "an integer twice": b"\x02\x02\x011\xc0\x01",
    "a score NaN": b"\x05\x01\x01a" + b"\x00" * 6 + b"\xf8\x7f",
    "a score NaN as text": b"\x03\x01\x01a\xfd",
    "a score that is none": b"\x11" + raw(listpack([b"a", b"b"])),
    "a member without a score": b"\x11" + raw(listpack([b"a", b"1", b"b"])),
    "a time before the epoch": b"\x16\x01\x01a\x01b\xfe" + b"\xff" * 7,
    "an empty listpack": b"\x10" + raw(listpack([])),
    "an empty quicklist": b"\x12\x01\x02" + raw(listpack([])),
    "an empty node": b"\x12\x01\x01\x00",
    "an unknown node": b"\x12\x01\x03\x01a",
    "a listpack with another length": b"\x14" + raw(b"\x0b" + listpack([b"a"])[1:]),
    "a listpack with another count": b"\x14" + raw(listpack([b"a"])[:4] + b"\x02" + listpack([b"a"])[5:]),
    "a listpack that ends early": b"\x14" + raw(listpack([b"a"])[:6] + b"\xff" + listpack([b"a"])[7:]),
    "a listpack that goes too far": b"\x14" + raw(listpack([b"a"])[:6] + b"\xbf" + listpack([b"a"])[7:]),
    "a listpack with a wrong way back": b"\x14" + raw(listpack([b"a"])[:8] + b"\x03\xff"),
    "a ziplist with another tail": b"\x0a" + raw(ziplist([b"a"])[:4] + b"\x0b" + ziplist([b"a"])[5:]),
    "a ziplist with a wrong way back": b"\x0a" + raw(ziplist([b"a", b"b"])[:13] + b"\x04\x01b\xff"),
    "an intset out of order": b"\x0b" + raw(intset([5, 4], 2)),
    "an intset of another width": b"\x0b" + raw(intset([5], 3)),
    "an empty intset": b"\x0b" + raw(intset([], 2)),
    "a short intset": b"\x0b\x01\x02",
    "an empty zipmap": b"\x09" + raw(b"\x00\xff"),
    "a zipmap with a long form of a short length": b"\x09" + raw(b"\x01\xfe\x01\x00\x00\x00f\x00\x00\xff"),
    "a zipmap with a field alone": b"\x09" + raw(b"\x01\x01f\xff"),
    "LZF of more than it can hold": b"\x00\xc3\x03\x81\x00\x00\x00\x01\x00\x00\x00\x00abc",
    "LZF of less than it says": b"\x00\xc3\x02\x05\x00a",
    "LZF from before its beginning": b"\x00\xc3\x04\x04\x00a\x20\x01",
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_values_are_refused(name: str, oracle: Connection) -> None:
    """Whatever is wrong, it is "Bad data format"; the oracle says so too, once it does not read on into the footer."""
    value = BROKEN[name]
    with pytest.raises(FormatError):
        decode(seal([value], 80))
    if name not in {"a score that is none", "cut off"}:
        assert b"ERR Bad data format" == oracle.call("RESTORE", "k", 0, seal([value], 80)).text


@pytest.mark.parametrize("version", [0, 13, 79, 81, 65535])
def test_other_versions_are_refused(version: int) -> None:
    """What no server that is known here writes is not read."""
    with pytest.raises(VersionError):
        decode(seal([b"\x00\x01a"], version))


@pytest.mark.parametrize("payload", [b"", b"\x50\x00", b"\x00\x01a\x50\x00" + bytes(8)])
def test_a_footer_must_be_right(payload: bytes) -> None:
    """Too short for one, or with another checksum."""
    with pytest.raises(VersionError):
        decode(payload)


@pytest.mark.parametrize("kind", [6, 7])
def test_modules_are_named(kind: int) -> None:
    """They are not broken, only not supported."""
    with pytest.raises(UnsupportedError):
        decode(seal([bytes((kind,))], 11))


def test_what_follows_a_value_is_ignored() -> None:
    """As Redis does."""
    assert Content(STRING, [b"a"]) == decode(seal([b"\x00\x01a and more"], 80))


def lzf_of_zeros(count: int) -> bytes:
    """The LZF of `count` zero bytes, 264 * n + 1."""
    return b"\x00\x00" + b"\xe0\xff\x00" * ((count - 1) // 264)


def test_lzf_repeats_what_it_has_just_written() -> None:
    """A reference may reach into its own output; short and long ones."""
    assert bytes(2641) == decompress(lzf_of_zeros(2641), 2641)
    assert b"abcabcab" + b"cabcabcabc" == decompress(b"\x02abc\x60\x02\xe0\x01\x02", 18)


def test_a_payload_cannot_grow_without_bound() -> None:
    """Two compressed strings may decompress to 64 MiB together, whatever a record could name."""
    size = 264 * 200_000 + 1
    packed = lzf_of_zeros(size)
    text = b"\xc3" + pack_length(len(packed)) + pack_length(size) + packed

    assert RESTORED_BYTES_MAX < 2 * size
    assert size == len(decode(seal([b"\x01\x01", text], 80)).texts[0])
    with pytest.raises(TooLargeError):
        decode(seal([b"\x01\x02", text, text], 80))


@pytest.mark.parametrize("packed", [False, True])
def test_elements_are_bounded(packed: bool) -> None:
    """No more than one command may bring; a byte for each is enough to name them."""
    count = ARGUMENTS_MAX + 1
    value = b"\x01" + pack_length(count) + b"\x00" * count
    if packed:
        body = b"\x00\x01" * count
        value = b"\x12\x01\x02" + raw((7 + len(body)).to_bytes(4, "little") + b"\xff\xff" + body + b"\xff")

    with pytest.raises(TooLargeError):
        decode(seal([value], 80))


def test_a_payload_is_no_longer_than_a_string() -> None:
    """What would be longer is refused before it is put together."""
    piece = bytes(STRING_BYTES_MAX // 64)
    with pytest.raises(TooLargeError):
        seal([piece] * 64, 9)
