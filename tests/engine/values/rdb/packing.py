"""Writers of the packed encodings that the engine only reads, and the oracle's own view of a key."""

from __future__ import annotations

from typing import Any

from engine.model import HASH, LIST, SET, STRING, ZSET
from engine.values.numbers import parse_int
from engine.values.rdb.encode import pack_length
from tests.real.oracle import Connection


def raw(text: bytes) -> bytes:
    """A string with its length before it, never as an integer."""
    return pack_length(len(text)) + text


def ziplist(elements: list[bytes]) -> bytes:
    """A ziplist as Redis before 7 writes it: integers in the smallest width."""
    body, before, last = b"", 0, 10
    for element in elements:
        last = 10 + len(body)
        entry = bytes((before,)) if before < 254 else b"\xfe" + before.to_bytes(4, "little")
        entry += _ziplist_text(element)
        body += entry
        before = len(entry)
    header = (11 + len(body)).to_bytes(4, "little") + last.to_bytes(4, "little") + len(elements).to_bytes(2, "little")
    return header + body + b"\xff"


def _ziplist_text(element: bytes) -> bytes:
    number = parse_int(element)
    if number is None:
        if len(element) < 1 << 6:
            return bytes((len(element),)) + element
        if len(element) < 1 << 14:
            return (len(element) | 1 << 14).to_bytes(2, "big") + element
        return b"\x80" + len(element).to_bytes(4, "big") + element
    if 0 <= number <= 12:
        return bytes((0xF1 + number,))
    for first, width in ((0xFE, 1), (0xC0, 2), (0xF0, 3), (0xD0, 4), (0xE0, 8)):
        if -(1 << 8 * width - 1) <= number < 1 << 8 * width - 1:
            return bytes((first,)) + number.to_bytes(width, "little", signed=True)
    raise AssertionError


def listpack(elements: list[bytes]) -> bytes:
    """A listpack of strings of less than 64 bytes and integers of 64 bits: valid, though no server packs it so."""
    body = b""
    for element in elements:
        number = parse_int(element)
        entry = bytes((0x80 | len(element),)) + element
        if number is not None:
            entry = b"\xf4" + number.to_bytes(8, "little", signed=True)
        body += entry + bytes((len(entry),))
    return (7 + len(body)).to_bytes(4, "little") + len(elements).to_bytes(2, "little") + body + b"\xff"


def intset(numbers: list[int], width: int) -> bytes:
    """An intset of these numbers in this order."""
    header = width.to_bytes(4, "little") + len(numbers).to_bytes(4, "little")
    return header + b"".join(number.to_bytes(width, "little", signed=True) for number in numbers)


def of_oracle(oracle: Connection, key: bytes) -> tuple[int, Any] | None:
    """What the oracle holds, in the shape of `tests.differential.payloads.in_order`; None for no key."""
    kind = oracle.call("TYPE", key).text
    if kind == b"string":
        return STRING, [oracle.call("GET", key)]
    if kind == b"list":
        return LIST, oracle.call("LRANGE", key, 0, -1)
    if kind == b"set":
        return SET, sorted(oracle.call("SMEMBERS", key))
    if kind == b"hash":
        flat = oracle.call("HGETALL", key)
        fields = flat[::2]
        times = oracle.call("HPEXPIRETIME", key, "FIELDS", len(fields), *fields) if fields else []
        pairs = zip(fields, flat[1::2], [max(time, 0) for time in times], strict=True)
        return (HASH, sorted(pairs)) if fields else None
    if kind == b"zset":
        flat = oracle.call("ZRANGE", key, 0, -1, "WITHSCORES")
        return ZSET, sorted(zip(map(float, flat[1::2]), flat[::2], strict=True))
    return None
