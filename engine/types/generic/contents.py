"""Reads a key's content as a value for DUMP, and makes a key from it for RESTORE."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from engine.batch.keys.key import Key
from engine.batch.transaction import Transaction
from engine.layouts.layout import Form
from engine.model import HASH, LIST, SET, STREAM, STRING, ZSET
from engine.types import lists, sets
from engine.types.hash import hash_fields
from engine.types.stream import stream_values
from engine.types.string import strings
from engine.types.zset import zsets
from engine.values.encoding import pack_score
from engine.values.rdb.content import Content

# What an element takes in a batch beside its own bytes, at least. A compressed payload names many elements in one byte,
# so a transaction of several payloads is bounded by what they bring, as by the values of strings.
_ELEMENT_BYTES: Final = 64


def read(tx: Transaction, key: Key) -> Content:
    """What a key that is alive holds, without fields that are due. O(its bytes)."""
    return _READS[key.type](tx, key)


def _read_string(tx: Transaction, key: Key) -> Content:
    return Content(STRING, [strings.read(tx, key)])


def _read_list(tx: Transaction, key: Key) -> Content:
    return Content(LIST, lists.elements(key, 0, key.size))


def _read_set(tx: Transaction, key: Key) -> Content:
    return Content(SET, list(sets.members(key)))


def _read_hash(tx: Transaction, key: Key) -> Content:
    pairs = list(hash_fields.items(tx, key))
    texts = [text for pair in pairs for text in pair]
    times = key.times
    expires_ms = [] if times is None else [times.of(field) for field, _ in pairs]
    return Content(HASH, texts, expires_ms=expires_ms if any(expires_ms) else ())


def _read_sorted_set(tx: Transaction, key: Key) -> Content:
    members, scores = zip(*map(zsets.split, zsets.scan(tx, key)), strict=True)
    return Content(ZSET, list(members), scores)


def _read_stream(_tx: Transaction, key: Key) -> Content:
    return Content(STREAM, [], stream=stream_values.read(key))


_READS: Final[dict[int, Callable[[Transaction, Key], Content]]] = {
    STRING: _read_string,
    LIST: _read_list,
    SET: _read_set,
    HASH: _read_hash,
    ZSET: _read_sorted_set,
    STREAM: _read_stream,
}


def write(tx: Transaction, name: bytes, old: Key | None, content: Content, expire_ms: int) -> None:
    """A key of `content` in the place of `old`, which `find` gave for `name`.

    Nothing of the content is due, it is not empty, and `expire_ms`, 0 for never, lies ahead.
    """
    texts = content.texts
    if content.type == STRING:
        strings.put_until(tx, name, old, texts[0], expire_ms)
        return
    if content.stream is not None:
        key = stream_values.create(tx, name, content.stream)
        if expire_ms:
            tx.expire(key, expire_ms)
        return
    if content.expires_ms:
        tx.require(Form.FIELD_TIMES)
    size = sum(map(len, texts)) + _ELEMENT_BYTES * len(texts)
    tx.value_bytes += size
    tx.written_bytes += size
    key = tx.create(name, content.type)
    if content.type == LIST:
        lists.push_tail(tx, name, key, texts)
    elif content.type == SET:
        sets.add(tx, name, key, texts)
    elif content.type == HASH:
        if content.expires_ms:
            tx.start_times(key)  # of a hash without fields, which costs least
        hash_fields.put(tx, name, key, texts)
        _put_times(key, content)
    else:
        zsets.add(tx, name, key, zip(map(pack_score, content.scores), texts, strict=True))
    if expire_ms:
        tx.expire(key, expire_ms)


def _put_times(key: Key, content: Content) -> None:
    """Let fields of a new hash die; settled once, as each time it costs as much as there are fields."""
    times = key.times
    if times is None:
        return
    for field, expire_ms in zip(content.texts[::2], content.expires_ms, strict=True):
        if expire_ms:
            times.put(field, expire_ms)
    key.settle()
