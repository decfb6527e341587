"""Makes, moves and removes consumer groups and their consumers. Source: https://valkey.io/commands/#stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from engine.batch.keys.key import Key
from engine.batch.transaction import Transaction
from engine.commands.options import read_integer, read_option
from engine.commands.registry import command
from engine.commands.streams.ids import parse_bound, parse_id
from engine.errors import CommandError, quoted
from engine.model import NO_ID, STREAM
from engine.types.stream import stream_groups, streams
from engine.types.stream.stream_counters import UNKNOWN
from engine.types.stream.stream_groups import Group
from engine.values.replies import OK, Reply

_NO_KEY: Final = (
    "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option "
    "to create an empty stream automatically."
)
_BUSY: Final = "BUSYGROUP Consumer Group name already exists"
_CREATE_ARGUMENTS_MAX: Final = 6


@command(
    "XGROUP CREATE key group <id|$> [MKSTREAM] [ENTRIESREAD entries-read]",
    group="stream",
    since="5.0.0",
    complexity="O(1)",
    write=True,
    keeps_watches=True,
    grows=True,
    container=True,
    access="RW insert",
    notifies="xgroup-create",
)
def xgroup_create(tx: Transaction, args: list[bytes]) -> Reply:
    """Make a group that gets the entries of a stream behind an id; `$` is the last one's.

    With MKSTREAM the stream is made where there is none.

    > XGROUP CREATE s crew $
    (error) ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option to create an empty stream automatically.
    > XGROUP CREATE s crew $ MKSTREAM
    OK
    > XGROUP CREATE s crew $
    (error) BUSYGROUP Consumer Group name already exists
    """  # noqa: E501 - a reply is one line
    makes, entries_read = _options(b"CREATE", args)
    key = tx.find_typed(args[0], STREAM)
    if key is None and not makes:
        raise CommandError(_NO_KEY)
    if len(args) > _CREATE_ARGUMENTS_MAX:
        raise _usage(b"CREATE")
    last_id = _id(key, args[2])
    if key is not None and stream_groups.find(key, args[1]) is not None:
        raise CommandError(_BUSY)
    if key is None:
        key = streams.create(tx, args[0])
    stream_groups.create(key, args[1], last_id, entries_read)
    return OK


@command(
    "XGROUP SETID key group <id|$> [ENTRIESREAD entries-read]",
    group="stream",
    since="5.0.0",
    complexity="O(1)",
    write=True,
    keeps_watches=True,
    container=True,
    notifies="xgroup-setid",
)
def xgroup_setid(tx: Transaction, args: list[bytes]) -> Reply:
    """Let a group go on behind an id; `$` is the last entry's.

    > XGROUP CREATE s crew 0 MKSTREAM
    OK
    > XGROUP SETID s crew 5-1
    OK
    > XGROUP SETID s others 5-1
    (error) NOGROUP No such consumer group 'others' for key name 's'
    """
    _, entries_read = _options(b"SETID", args)
    key, group = _find(tx, args)
    if len(args) not in {3, 5}:
        raise _usage(b"SETID")
    group.last_id = streams.parts(key).last_id if args[2] == b"$" else parse_bound(args[2])
    group.entries_read = entries_read
    group.save()
    return OK


@command(
    "XGROUP DESTROY key group",
    group="stream",
    since="5.0.0",
    complexity="O(p) with p pending entries and consumers of the group; any number costs little more than 1000",
    write=True,
    keeps_watches=True,
    container=True,
    access="RW delete",
    notifies="xgroup-destroy",
)
def xgroup_destroy(tx: Transaction, args: list[bytes]) -> Reply:
    """Remove a group with its consumers and what is pending. Returns 1, or 0 when there is none.

    > XGROUP CREATE s crew 0 MKSTREAM
    OK
    > XGROUP DESTROY s crew
    (integer) 1
    > XGROUP DESTROY s crew
    (integer) 0
    """
    key = _stream(tx, args)
    group = stream_groups.find(key, args[1])
    if group is None:
        return 0
    stream_groups.destroy(tx, key, group)
    return 1


@command(
    "XGROUP CREATECONSUMER key group consumer",
    group="stream",
    since="6.2.0",
    complexity="O(1)",
    write=True,
    keeps_watches=True,
    grows=True,
    container=True,
    access="RW insert",
    notifies="xgroup-createconsumer",
)
def xgroup_createconsumer(tx: Transaction, args: list[bytes]) -> Reply:
    """Make a consumer of a group. Returns 1, or 0 when it is there.

    > XGROUP CREATE s crew 0 MKSTREAM
    OK
    > XGROUP CREATECONSUMER s crew ann
    (integer) 1
    > XGROUP CREATECONSUMER s crew ann
    (integer) 0
    """
    _, group = _find(tx, args)
    if group.consumer(args[2]) is not None:
        return 0
    group.add_consumer(args[2], tx.now_ms)
    group.save()
    return 1


@command(
    "XGROUP DELCONSUMER key group consumer",
    group="stream",
    since="5.0.0",
    complexity="O(p) with p pending entries of the consumer; any number costs little more than 1000 if others have few",
    write=True,
    keeps_watches=True,
    container=True,
    access="RW delete",
    notifies="xgroup-delconsumer",
)
def xgroup_delconsumer(tx: Transaction, args: list[bytes]) -> Reply:
    """Remove a consumer of a group with what is pending for it. Returns how many entries that were.

    > XGROUP CREATE s crew 0 MKSTREAM
    OK
    > XGROUP CREATECONSUMER s crew ann
    (integer) 1
    > XGROUP DELCONSUMER s crew ann
    (integer) 0
    """
    _, group = _find(tx, args)
    consumer = group.consumer(args[2])
    if consumer is None:
        return 0
    pending = group.remove_consumer(tx, consumer)
    group.save()
    return pending


def no_group(group: bytes, name: bytes) -> CommandError:
    """What XGROUP and XINFO reply for a group that is not there."""
    return CommandError(f"NOGROUP No such consumer group '{quoted(group)}' for key name '{quoted(name)}'")


def _options(subcommand: bytes, args: Sequence[bytes]) -> tuple[bool, int]:
    """Whether MKSTREAM is given, and the number behind ENTRIESREAD.

    Raises:
        CommandError: there is something else.
    """
    makes, entries_read, at = False, UNKNOWN, 3
    while at < len(args):
        option = read_option(args[at])
        if option == b"MKSTREAM" and subcommand == b"CREATE":
            makes = True
            at += 1
            continue
        if option != b"ENTRIESREAD" or at + 1 == len(args):
            raise _usage(subcommand)
        number = read_integer(args[at + 1])
        if number < UNKNOWN:
            raise CommandError("ERR value for ENTRIESREAD must be positive or -1")
        entries_read = number
        at += 2
    return makes, entries_read


def _usage(subcommand: bytes) -> CommandError:
    text = f"ERR unknown subcommand or wrong number of arguments for '{subcommand.decode()}'. Try XGROUP HELP."
    return CommandError(text)


def _stream(tx: Transaction, args: Sequence[bytes]) -> Key:
    key = tx.find_typed(args[0], STREAM)
    if key is None:
        raise CommandError(_NO_KEY)
    return key


def _find(tx: Transaction, args: Sequence[bytes]) -> tuple[Key, Group]:
    key = _stream(tx, args)
    group = stream_groups.find(key, args[1])
    if group is None:
        raise no_group(args[1], args[0])
    return key, group


def _id(key: Key | None, text: bytes) -> bytes:
    if text != b"$":
        return parse_id(text)
    return NO_ID if key is None else streams.parts(key).last_id
