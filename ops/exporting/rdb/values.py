"""Writes the value of one key into an RDB file, whatever its size, in little memory."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Final

from engine.model import STREAM, STRING
from engine.values.rdb.compact import compact
from engine.values.rdb.content import Content, joined
from engine.values.rdb.encode import KINDS, REDIS_HASH, VALKEY_HASH, count_of, elements, pack_length, pack_string
from engine.values.rdb.stream_encoding import VERSIONS, pack_nodes, pack_state
from engine.values.rdb.streams import OLDEST
from engine.values.streams import StreamEntry, StreamState

REDIS_TIMES_VERSION: Final = 12
VALKEY_TIMES_VERSION: Final = 80
TIMED_KINDS: Final = {REDIS_TIMES_VERSION: REDIS_HASH, VALKEY_TIMES_VERSION: VALKEY_HASH}
"""The type of a hash with times of fields, in the versions that have one."""

_EARLIEST: Final = (1).to_bytes(8, "little")
_SMALL_BYTES: Final = 1024 * 1024
_COPIED_BYTES: Final = 256 * 1024


def value(contents: Iterable[Content], version: int, directory: Path, *, timed: bool) -> Iterator[bytes]:
    """The type of a value, and behind the name that follows it the value: the first piece is the type alone.

    Args:
        contents: its parts.
        version: of RDB.
        directory: for a file without a name, where a large value waits until its elements are counted.
        timed: whether a hash has fields with a time to live, which the version can hold.
    """
    parts = iter(contents)
    first = next(parts)
    if first.type == STREAM:
        yield from _stream(chain([first], parts), version, directory)
        return
    parts = chain([first], parts)
    begun = list(_beginning(parts))
    whole = joined(begun) if sum(map(_bytes, begun)) <= _SMALL_BYTES else None
    if begun[0].type == STRING:
        yield bytes((KINDS[STRING],))
        yield from _string(begun[0].texts[0])
        return
    packed = None if whole is None or timed else compact(whole, version)
    if packed is not None:
        yield packed[:1]
        yield packed[1:]
        return
    kind = TIMED_KINDS[version] if timed else KINDS[begun[0].type]
    yield bytes((kind,))
    if kind == REDIS_HASH:
        yield _EARLIEST
    if whole is not None:
        yield pack_length(count_of(whole))
        yield from elements(kind, whole)
    else:
        yield from _counted(kind, chain(begun, parts), directory)


def _string(text: bytes) -> Iterable[bytes]:
    """A string; a long one is not copied."""
    return (pack_string(text),) if len(text) <= _COPIED_BYTES else (pack_length(len(text)), text)


def _stream(parts: Iterable[Content], version: int, directory: Path) -> Iterator[bytes]:
    """A stream, in the newest form that a version has."""
    kind = max((kind for kind, since in VERSIONS.items() if since <= version), default=OLDEST)
    yield bytes((kind,))
    states: list[StreamState] = []
    nodes = length = 0
    first_id = bytes(16)

    def entries() -> Iterator[StreamEntry]:
        nonlocal length, first_id
        for part in parts:
            assert part.stream is not None
            for entry in part.stream.entries:
                first_id = first_id if length else entry.id
                length += 1
                yield entry
            if part.stream.state is not None:
                states.append(part.stream.state)

    with tempfile.TemporaryFile(dir=directory) as file:
        for node in pack_nodes(entries()):
            nodes += 1
            file.write(node)
        yield pack_length(nodes)
        file.seek(0)
        while piece := file.read(_COPIED_BYTES):
            yield piece
    yield from pack_state(kind, states[-1], length, first_id)


def _beginning(parts: Iterator[Content]) -> Iterator[Content]:
    """All parts of what is small, else the first ones."""
    taken = 0
    for part in parts:
        yield part
        taken += _bytes(part)
        if taken > _SMALL_BYTES:
            return


def _bytes(part: Content) -> int:
    return sum(map(len, part.texts))


def _counted(kind: int, parts: Iterable[Content], directory: Path) -> Iterator[bytes]:
    """The elements with their number before them, which is known when all have been seen."""
    count = 0
    with tempfile.TemporaryFile(dir=directory) as file:
        for part in parts:
            count += count_of(part)
            file.writelines(elements(kind, part))
        yield pack_length(count)
        file.seek(0)
        while piece := file.read(_COPIED_BYTES):
            yield piece
