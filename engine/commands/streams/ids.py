"""Parses ids of stream entries, as Redis takes them, and shows entries.

1000-1    1000     the sequence number is 0, or in the end of an interval the highest
1000-*    *        XADD alone: the next one, of this millisecond or of now
- + (1000-1        XRANGE and its relatives: the lowest, the highest, without this one
$ >                XREAD and XREADGROUP: `engine.commands.streams.reads`
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from engine.errors import CommandError
from engine.model import NO_ID
from engine.types.stream.streams import MAX_ID, id_after, id_before, make_id, show_id
from engine.values.replies import Reply, bounded
from engine.values.stream_records import parse_entry

INVALID_ID: Final = "ERR Invalid stream ID specified as stream command argument"

SEQ_MAX: Final = (1 << 64) - 1

_TEXT_BYTES_MAX: Final = 127
_NUMBER: Final = re.compile(rb"[ \t\n\v\f\r]*([+-]?)([0-9]+)")
_CANONICAL_NEGATIVE: Final = re.compile(rb"-[1-9][0-9]*")
_LONG_MIN: Final = 1 << 63


class PartialId(NamedTuple):
    """An id as XADD is given one; `seq` None: the next one."""

    ms: int
    seq: int | None


def parse_id(text: bytes, missing_seq: int = 0) -> bytes:
    """An id in digits; `missing_seq` where it has no sequence number.

    Raises:
        CommandError: it is none.
    """
    found = parse_partial_id(text, missing_seq, with_star=False)
    return make_id(found.ms, found.seq or 0)


def parse_partial_id(text: bytes, missing_seq: int = 0, *, with_star: bool = True) -> PartialId:
    """An id in digits, or one of XADD of which the sequence number is a star.

    Raises:
        CommandError: it is neither.
    """
    if len(text) > _TEXT_BYTES_MAX:
        raise CommandError(INVALID_ID)
    first, dash, second = text.partition(b"\0")[0].partition(b"-")
    ms = _parse_number(first)
    seq: int | None
    if not dash:
        seq = missing_seq
    elif with_star and second == b"*":
        seq = None
    else:
        seq = _parse_number(second)
        if seq is None:
            raise CommandError(INVALID_ID)
    if ms is None:
        raise CommandError(INVALID_ID)
    return PartialId(ms, seq)


def parse_bound(text: bytes, missing_seq: int = 0) -> bytes:
    """As `parse_id`, or `-` and `+` for the lowest and the highest id.

    Raises:
        CommandError: it is none of these.
    """
    if text == b"-":
        return NO_ID
    if text == b"+":
        return MAX_ID
    return parse_id(text, missing_seq)


def parse_interval(start: bytes, end: bytes) -> tuple[bytes, bytes]:
    """The lowest and the highest id of an interval, each with `(` in front without itself.

    Raises:
        CommandError: one of them is no id, or there is none on that side of it.
    """
    low = id_after(parse_id(start[1:])) if _is_exclusive(start) else parse_bound(start)
    if low is None:
        raise CommandError("ERR invalid start ID for the interval")
    high = id_before(parse_id(end[1:], SEQ_MAX)) if _is_exclusive(end) else parse_bound(end, SEQ_MAX)
    if high is None:
        raise CommandError("ERR invalid end ID for the interval")
    return low, high


def shown(entries: Iterable[tuple[bytes, bytes]]) -> Reply:
    """Entries, given by id and value, as replies show them.

    Raises:
        CommandError: they are too much for one reply.
    """
    found = bounded(entries, lambda some: sum(2 * len(value) for _, value in some))
    return [[show_id(entry_id), parse_entry(value)] for entry_id, value in found]


def _is_exclusive(bound: bytes) -> bool:
    return bound.startswith(b"(") and len(bound) > 1


def _parse_number(text: bytes) -> int | None:
    """An unsigned number as Redis reads it: first its own way, which knows -1, then C's, in which -01 wraps around."""
    found = _NUMBER.fullmatch(text)
    if found is None:
        return None
    number = int(found[2])
    if number > SEQ_MAX or (_CANONICAL_NEGATIVE.fullmatch(text) and number <= _LONG_MIN):
        return None
    return -number & SEQ_MAX if found[1] == b"-" else number
