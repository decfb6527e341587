"""Reads several streams at once, from an id on. Source: https://valkey.io/commands/xread/.

A server that lets its clients wait for an entry runs the command again when there may be one.
"""

from __future__ import annotations

from itertools import islice

from engine.batch.keys.key import Key
from engine.batch.transaction import Transaction
from engine.commands.registry import command
from engine.commands.streams.ids import parse_id, shown
from engine.commands.streams.read_options import ReadOptions, read_options_of
from engine.errors import CommandError
from engine.model import NO_ID, STREAM
from engine.types.stream import streams
from engine.types.stream.streams import id_after, id_before, show_id
from engine.values.replies import NIL_ARRAY, Named, Reply


@command(
    "XREAD [COUNT count] [BLOCK milliseconds] STREAMS key [key ...] id [id ...]",
    group="stream",
    since="5.0.0",
    complexity="O(keys + n) with n the entries returned",
    access="RO access",
    flags=("readonly", "blocking", "movablekeys"),
    categories=("read", "stream", "slow", "blocking"),
)
def xread(tx: Transaction, args: list[bytes]) -> Reply:
    """Return the entries of one or more streams that are above an id of each.

    `$` stands for the id of the last entry, `+` for the one in front of it. BLOCK waits for an entry where there is
    none, so many milliseconds or, with 0, for ever; in a transaction or a script nothing waits.

    > XADD s 1000-1 name ann
    "1000-1"
    > XADD s 1000-2 name bob
    "1000-2"
    > XREAD COUNT 1 STREAMS s none 0 0
    1) 1) "s"
       2) 1) 1) "1000-1"
             2) 1) "name"
                2) "ann"
    > XREAD STREAMS s $
    (nil)
    """
    options = read_options_of(args, tx.now_ms, has_group=False)
    found = Named()
    for name, key, after in _sources(tx, options):
        if key is None or not key.size or streams.parts(key).end_id <= after:
            continue
        start = id_after(after)
        assert start is not None, "an entry is above it"
        found.append((name, shown(islice(streams.entries(key, start), options.most))))
    return found or NIL_ARRAY


def fixed_ids(tx: Transaction, args: list[bytes]) -> Reply:
    """The arguments of an XREAD that waits: `$` as the id that it stands for now, `+` as it is.

    A waiting `+` takes the last of the entries that wake it, as in Redis.
    """
    options = read_options_of(args, tx.now_ms, has_group=False)
    sources = _sources(tx, options)
    ids = [text if text == b"+" else show_id(after) for text, (_, _, after) in zip(options.ids, sources, strict=True)]
    return [*args[: -len(ids)], *ids]


def _sources(tx: Transaction, options: ReadOptions) -> list[tuple[bytes, Key | None, bytes]]:
    """The name, the stream and the id above which it is read, for each key.

    Raises:
        CommandError: of the first key that is of another type, or of the first id that is none.
    """
    found = []
    for name, text in zip(options.keys, options.ids, strict=True):
        key = tx.find_typed(name, STREAM)
        found.append((name, key, _after(key, text)))
    return found


def _after(key: Key | None, text: bytes) -> bytes:
    """The id above which an entry is to be.

    Raises:
        CommandError: it is none.
    """
    if text == b">":
        raise CommandError(
            "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option."
        )
    if text not in {b"$", b"+"}:
        return parse_id(text)
    if key is None:
        return NO_ID
    stream = streams.parts(key)
    return stream.last_id if text == b"$" else id_before(stream.last_id) or NO_ID
