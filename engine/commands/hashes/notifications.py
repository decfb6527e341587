"""Keyspace events of the commands that give times to live to fields."""

from __future__ import annotations

from collections.abc import Iterator

from engine.commands.hashes.field_options import HGETEX_OPTIONS, HSETEX_OPTIONS, parse_options, split_behind_key
from engine.commands.keyspace_events import GENERIC, HASH, Change, KeyspaceEvent, Rule
from engine.values.numbers import parse_int


def of_hexpire(unit_ms: int, *, relative: bool) -> Rule:
    """A time in the past deletes the fields, and that is what Redis tells; `hexpired` is for those that die later."""

    def rule(args: list[bytes], changes: list[Change]) -> Iterator[KeyspaceEvent]:
        for change in changes:
            expire_ms = (parse_int(args[1]) or 0) * unit_ms + (change.now_ms if relative else 0)
            yield from change.happened(HASH, b"hdel" if expire_ms <= change.now_ms else b"hexpire")

    return rule


def of_hgetex(args: list[bytes], changes: list[Change]) -> Iterator[KeyspaceEvent]:
    """HGETEX: what its option does to the fields."""
    options = parse_options(split_behind_key(args)[0], HGETEX_OPTIONS)
    for change in changes:
        expire_ms = options.expire_ms(change.now_ms, "")
        name = b"hpersist" if expire_ms is None else b"hexpired" if expire_ms <= change.now_ms else b"hexpire"
        yield from change.happened(HASH, name)


def of_hsetex(args: list[bytes], changes: list[Change]) -> Iterator[KeyspaceEvent]:
    """HSETEX: it tells everything that it does, even where nothing of it is left."""
    options = parse_options(split_behind_key(args)[0], HSETEX_OPTIONS)
    for change in changes:
        yield from change._replace(gone=False).happened(HASH, b"hset")
        expire_ms = options.expire_ms(change.now_ms, "")
        if expire_ms is not None:
            yield change.event(HASH, b"hexpire")
            if expire_ms <= change.now_ms:
                yield change.event(HASH, b"hexpired")
        if change.gone:
            yield change.event(GENERIC, b"del")
