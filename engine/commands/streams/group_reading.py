"""XREADGROUP: gives entries of streams to a consumer of a group. Source: https://valkey.io/commands/xreadgroup/.

A server asks the state before it sends one: what would change nothing is no event. In Redis a consumer that asks in
vain is seen all the same; here it is not.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from engine.batch.keys.key import Key
from engine.batch.transaction import Transaction
from engine.commands.keyspace_events import CONSUMER_MADE, further
from engine.commands.registry import command
from engine.commands.streams.ids import parse_id
from engine.commands.streams.read_options import ReadOptions, read_options_of
from engine.errors import CommandError, quoted
from engine.model import STREAM
from engine.types.stream import stream_groups, streams
from engine.types.stream.stream_counters import read_up_to
from engine.types.stream.stream_groups import Consumer, Group
from engine.types.stream.streams import MAX_ID, id_after, show_id
from engine.values.replies import NIL_ARRAY, Named, Reply, bounded
from engine.values.stream_records import parse_entry

_NO_GROUP = "NOGROUP No such key '{}' or consumer group '{}' in XREADGROUP with GROUP option"
_MEANINGLESS = (
    "ERR The {0} ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by"
    " specifying a proper ID, or use the > ID to get new messages. The {0} ID would just return an empty result set."
)


class _Source(NamedTuple):
    """A stream that is read: above `after` what the consumer has got; None: what nobody has got."""

    name: bytes
    key: Key
    group: Group
    after: bytes | None


def _changes_nothing(tx: Transaction, args: list[bytes]) -> bool:
    """Whether XREADGROUP changes nothing; where it is an error, that is the same of the read."""
    try:
        return not is_ready(tx, args)
    except CommandError:
        return True


def _read_nothing(tx: Transaction, args: list[bytes]) -> Reply:
    """The reply of an XREADGROUP that is not ready.

    Raises:
        CommandError: as the command.
    """
    options = read_options_of(args, tx.now_ms, has_group=True)
    return _reply([source for source in _sources(tx, options) if source.after is not None], options) or NIL_ARRAY


@command(
    "XREADGROUP GROUP group consumer [COUNT count] [BLOCK milliseconds] [NOACK] STREAMS key [key ...] id [id ...]",
    group="stream",
    since="5.0.0",
    complexity="O(keys + n log m) with n the entries returned, of m in the group's pending list",
    write=True,
    keeps_watches=True,
    access="RO access",
    large_reply=True,
    flags=("write", "blocking", "movablekeys"),
    categories=("write", "stream", "slow", "blocking"),
    only_reads=_changes_nothing,
    reads_as=_read_nothing,
    notifies=further,
)
def xreadgroup(tx: Transaction, args: list[bytes]) -> Reply:
    """Give a consumer the entries that its group has not given yet, or those that it has not acknowledged.

    With `>` as the id they are new ones, which are pending from then on, but with NOACK. With any other id they are
    what is pending for this consumer above it, delivered once more. A consumer that is not there is made. BLOCK waits
    for an entry where there is none, so many milliseconds or, with 0, for ever; in a transaction or a script nothing
    waits.

    > XADD s 1000-1 name ann
    "1000-1"
    > XGROUP CREATE s mailers 0
    OK
    > XREADGROUP GROUP mailers one STREAMS s >
    1) 1) "s"
       2) 1) 1) "1000-1"
             2) 1) "name"
                2) "ann"
    > XREADGROUP GROUP mailers one STREAMS s >
    (nil)
    """
    options = read_options_of(args, tx.now_ms, has_group=True)
    sources = _sources(tx, options)
    given = [_entries_to_show(source, options) for source in sources]  # refuses too much before anything has changed
    found = Named()
    for number, (source, entries) in enumerate(zip(sources, given, strict=True)):
        if source.name in options.keys[:number]:  # named again: it goes on behind what was given a moment ago
            entries = _entries_to_show(source, options)  # noqa: PLW2901
        group, consumer = source.group, source.group.consumer(options.consumer)
        is_new = consumer is None
        if consumer is None:
            consumer = group.add_consumer(options.consumer, tx.now_ms)
            tx.note_done(source.name, CONSUMER_MADE)
        changed = _deliver(source, consumer, entries, tx.now_ms, noack=options.noack)
        if changed or is_new:
            consumer.seen_ms = tx.now_ms
            group.save()
        if entries or source.after is not None:
            found.append((source.name, _shown(entries)))
    return found or NIL_ARRAY


def is_ready(tx: Transaction, args: list[bytes]) -> bool:
    """Whether XREADGROUP with these arguments changes anything, or gives an entry that is new.

    Raises:
        CommandError: as the command.
    """
    options = read_options_of(args, tx.now_ms, has_group=True)
    sources = _sources(tx, options)
    if any(source.group.consumer(options.consumer) is None for source in sources):
        return True
    return any(value is not None for source in sources for _, value in _entries(source, options))


def _sources(tx: Transaction, options: ReadOptions) -> list[_Source]:
    """The streams with their groups; one that is named twice has one group.

    Raises:
        CommandError: a key is of another type or has no such group, or what stands for an id is none.
    """
    groups: dict[bytes, Group] = {}
    found = []
    for name, text in zip(options.keys, options.ids, strict=True):
        key = tx.find_typed(name, STREAM)
        assert options.group is not None
        group = groups.get(name)
        if group is None and key is not None:
            group = stream_groups.find(key, options.group)
        if key is None or group is None:
            raise CommandError(_NO_GROUP.format(quoted(name), quoted(options.group)))
        if text in {b"$", b"+"}:
            raise CommandError(_MEANINGLESS.format(text.decode()))
        groups[name] = group
        after = MAX_ID if text == b">" else parse_id(text)
        found.append(_Source(name, key, group, None if after == MAX_ID else after))  # the highest id is `>` to Redis
    return found


def _entries(source: _Source, options: ReadOptions) -> Iterator[tuple[bytes, bytes | None]]:
    """The ids and values of what there is to give; None for an entry that was deleted since."""
    _, key, group, after = source
    start = id_after(group.last_id if after is None else after)
    if start is None:
        return iter(())
    if after is None:
        return islice(streams.entries(key, start), options.most)
    ids = islice(group.ids_of(options.consumer, start), options.most)
    return ((entry_id, streams.entry(key, entry_id)) for entry_id in ids)


def _deliver(
    source: _Source, consumer: Consumer, entries: list[tuple[bytes, bytes | None]], now_ms: int, *, noack: bool
) -> bool:
    """Note what the consumer gets. Returns whether that is anything."""
    group, changed = source.group, False
    for entry_id, value in entries:
        deliveries = 1
        if source.after is None:
            read_up_to(source.key, group, entry_id)
        elif value is None:
            continue
        else:
            pending = group.pending_entry(entry_id)
            deliveries += 0 if pending is None else pending.deliveries
        changed = True
        if source.after is not None or not noack:
            group.give(entry_id, consumer, now_ms, deliveries)
            if source.after is None:
                consumer.active_ms = now_ms
    return changed


def _reply(sources: list[_Source], options: ReadOptions) -> Named:
    return Named((source.name, _shown(_entries_to_show(source, options))) for source in sources)


def _entries_to_show(source: _Source, options: ReadOptions) -> list[tuple[bytes, bytes | None]]:
    """What there is to give.

    Raises:
        CommandError: it is too much for a reply.
    """
    return bounded(_entries(source, options), lambda some: sum(2 * len(value or b"") for _, value in some))


def _shown(entries: list[tuple[bytes, bytes | None]]) -> list[Reply]:
    """Entries as replies show them; one that was deleted has nothing."""
    return [[show_id(entry_id), NIL_ARRAY if value is None else parse_entry(value)] for entry_id, value in entries]
