"""Adds and removes entries of streams. Source: https://valkey.io/commands/#stream."""

from __future__ import annotations

from typing import Final

from engine.batch.keys.key import Key
from engine.batch.transaction import Transaction
from engine.commands import fills
from engine.commands.keyspace_events import TRIMMED
from engine.commands.options import read_integer, read_option
from engine.commands.registry import command
from engine.commands.streams.ids import PartialId, parse_id
from engine.commands.streams.trimming import read_of_xadd, read_of_xtrim
from engine.errors import NO_SUCH_KEY, SYNTAX, CommandError
from engine.model import NO_ID, STREAM
from engine.types.stream import streams
from engine.types.stream.streams import MAX_ID, make_id, show_id
from engine.values.replies import OK, Reply
from slotlog.shared.errors import wrong_arity

_ZERO: Final = "ERR The ID specified in XADD must be greater than 0-0"
_SMALL: Final = "ERR The ID specified in XADD is equal or smaller than the target stream top item"
_EXHAUSTED: Final = "ERR The stream has exhausted the last possible ID, unable to add more items"


@command(
    "XADD key [NOMKSTREAM] [<MAXLEN|MINID> [=|~] threshold [LIMIT count]] <*|id> field value [field value ...]",
    group="stream",
    since="5.0.0",
    complexity="O(fields), and O(n) with n entries that are trimmed",
    write=True,
    fast=True,
    grows=True,
    fills=fills.streamed,
    notifies="xadd",
)
def xadd(tx: Transaction, args: list[bytes]) -> Reply:
    """Append an entry of fields and values to a stream. Returns its id.

    The id has to be above all that the stream ever had. `*` stands for the time of the log in milliseconds and a
    number that starts at 0 in each of them; `1000-*` for the next number of that millisecond. MAXLEN keeps so many of
    the newest entries, MINID those from this id on. With `~` some more may stay, as in XTRIM. In front of the id
    KEEPREF, DELREF or ACKED (Redis 8.2) say as in XDELEX what becomes of entries that are pending.

    > XADD s 1000-1 name ann
    "1000-1"
    > XADD s 1000-* name bob
    "1000-2"
    > XADD s MAXLEN 1 1001 name cy
    "1001-0"
    > XADD s 7 name dan
    (error) ERR The ID specified in XADD is equal or smaller than the target stream top item
    """
    options = read_of_xadd(args)
    texts = args[options.behind :]
    if not texts or len(texts) % 2:
        raise CommandError(wrong_arity("xadd"))
    wanted = options.id
    if wanted == (0, 0):
        raise CommandError(_ZERO)
    key = tx.find_typed(args[0], STREAM)
    if key is None and not options.makes:
        return None
    entry_id = _id_of(key, wanted, tx.now_ms)
    if key is None:
        key = streams.create(tx, args[0])
    streams.add(tx, key, entry_id, texts)
    if options.trims and options.trim(tx, key):
        tx.note_done(args[0], TRIMMED)
    return show_id(entry_id)


def _id_of(key: Key | None, wanted: PartialId | None, now_ms: int) -> bytes:
    """The id of a new entry.

    Raises:
        CommandError: there is none that is above all others.
    """
    last_id = NO_ID if key is None else streams.parts(key).last_id
    if last_id == MAX_ID:
        raise CommandError(_EXHAUSTED)
    if wanted is None:
        found = streams.next_id(last_id, now_ms)
    elif wanted.seq is None:
        found = streams.next_id_of(last_id, wanted.ms)
    else:
        found = make_id(wanted.ms, wanted.seq)
    if found is None or found <= last_id:
        raise CommandError(_SMALL)
    return found


@command(
    "XDEL key id [id ...]",
    group="stream",
    since="5.0.0",
    complexity="O(ids)",
    write=True,
    fast=True,
    access="RW delete",
    notifies="xdel",
)
def xdel(tx: Transaction, args: list[bytes]) -> Reply:
    """Delete entries of a stream. Returns how many were there.

    The stream stays, even when it is empty. Entries that are pending in a group are pending still.

    > XADD s 1000-1 name ann
    "1000-1"
    > XDEL s 1000-1 1000-2
    (integer) 1
    > XLEN s
    (integer) 0
    """
    key = tx.find_typed(args[0], STREAM)
    if key is None:
        return 0
    return streams.delete(tx, key, [parse_id(text) for text in args[1:]])


@command(
    "XTRIM key <MAXLEN|MINID> [=|~] threshold [LIMIT count]",
    group="stream",
    since="5.0.0",
    complexity="O(n) with n entries that are trimmed; without `~` a large number of them costs little more than 1000",
    write=True,
    access="RW delete",
    notifies="xtrim",
)
def xtrim(tx: Transaction, args: list[bytes]) -> Reply:
    """Delete the oldest entries of a stream: all but so many, or all below an id. Returns how many.

    With `~` only whole nodes of Redis go, of up to 100 entries or 4096 bytes, and at most LIMIT entries, 10,000 if it
    is not given; before rules 3 hundreds of them with MAXLEN. KEEPREF, DELREF or ACKED (Redis 8.2) say as in XDELEX
    what becomes of entries that are pending.

    > XADD s 1000-1 name ann
    "1000-1"
    > XADD s 1000-2 name bob
    "1000-2"
    > XTRIM s MAXLEN 1
    (integer) 1
    > XTRIM s MINID 1001
    (integer) 1
    """
    options = read_of_xtrim(args)
    key = tx.find_typed(args[0], STREAM)
    return 0 if key is None else options.trim(tx, key)


@command(
    "XSETID key last-id [ENTRIESADDED entries-added] [MAXDELETEDID max-deleted-id]",
    group="stream",
    since="5.0.0",
    complexity="O(1)",
    write=True,
    keeps_watches=True,
    fast=True,
    grows=True,
    notifies="xsetid",
)
def xsetid(tx: Transaction, args: list[bytes]) -> Reply:
    """Set the last id of a stream, above which new ones have to be, and what it counts.

    > XADD s 1000-1 name ann
    "1000-1"
    > XSETID s 2000-0
    OK
    > XADD s 1500-0 name bob
    (error) ERR The ID specified in XADD is equal or smaller than the target stream top item
    """
    last_id = parse_id(args[1])
    entries_added, max_deleted_id = _counts_of_xsetid(args, last_id)
    key = tx.find_typed(args[0], STREAM)
    if key is None:
        raise CommandError(NO_SUCH_KEY)
    stream = streams.parts(key)
    if last_id < stream.max_deleted_id:
        raise CommandError("ERR The ID specified in XSETID is smaller than current max_deleted_entry_id")
    if key.size:
        if last_id < stream.end_id:
            raise CommandError("ERR The ID specified in XSETID is smaller than the target stream top item")
        if entries_added is not None and key.size > entries_added:
            raise CommandError("ERR The entries_added specified in XSETID is smaller than the target stream length")
    streams.set_last_id(key, last_id, entries_added, max_deleted_id)
    return OK


def _counts_of_xsetid(args: list[bytes], last_id: bytes) -> tuple[int | None, bytes]:
    """The number of entries added, and the highest id deleted; None and `NO_ID` where they are not given."""
    entries_added, max_deleted_id = None, NO_ID
    for at in range(2, len(args), 2):
        option = read_option(args[at])
        if at + 1 == len(args) or option not in {b"ENTRIESADDED", b"MAXDELETEDID"}:
            raise CommandError(SYNTAX)
        if option == b"ENTRIESADDED":
            entries_added = read_integer(args[at + 1])
            if entries_added < 0:
                raise CommandError("ERR entries_added must be positive")
        else:
            max_deleted_id = parse_id(args[at + 1])
            if last_id < max_deleted_id:
                text = "ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id"
                raise CommandError(text)
    return entries_added, max_deleted_id
