"""DUMP and RESTORE, in the format of Redis and Valkey. Source: https://valkey.io/commands/restore/.

RESTORE-ASKING is not there: it is RESTORE for a node that takes over a slot which another one still owns, and here a
slot is never between two owners.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from engine.batch.transaction import Transaction
from engine.commands import fills, keyspace_events
from engine.commands.keyspace_events import Change, KeyspaceEvent
from engine.commands.options import read_integer, read_option
from engine.commands.registry import command
from engine.errors import (
    BUSY_KEY,
    DUMP_FORMAT,
    DUMP_UNSUPPORTED,
    DUMP_VERSION,
    RESTORE_FREQ,
    RESTORE_IDLETIME,
    RESTORE_TOO_LARGE,
    RESTORE_TTL,
    STRING_TOO_LONG,
    SYNTAX,
    CommandError,
)
from engine.types.generic import contents
from engine.values.numbers import INT_MAX
from engine.values.rdb.content import Content
from engine.values.rdb.decode import decode
from engine.values.rdb.encode import encode
from engine.values.rdb.errors import FormatError, TooLargeError, UnsupportedError, VersionError
from engine.values.rdb.stream_encoding import encode_stream
from engine.values.replies import OK, Reply

_REFUSALS: Final = {VersionError: DUMP_VERSION, FormatError: DUMP_FORMAT, UnsupportedError: DUMP_UNSUPPORTED}
_FREQ_MAX: Final = 255


@command("DUMP key", group="generic", since="2.6.0", complexity="O(n) with n the bytes of the value")
def dump(tx: Transaction, args: list[bytes]) -> Reply:
    r"""Return a key's content for RESTORE, here or in Redis or Valkey, without its time to live.

    > DUMP none
    (nil)
    > RESTORE a 0 "\x00\xc0\x01\t\x00\xf6\x8a\xb6z\x85\x87rM"
    OK
    > GET a
    "1"
    """
    key = tx.find(args[0])
    if key is None:
        return None
    try:
        content = contents.read(tx, key)
        return encode(content) if content.stream is None else encode_stream(content.stream)
    except TooLargeError:
        raise CommandError(STRING_TOO_LONG) from None


def _restore_events(_args: list[bytes], changes: list[Change]) -> Iterator[KeyspaceEvent]:
    """The key is new even where it replaces another one; nothing but a removal is left of one that is due already."""
    for change in changes:
        if change.gone:
            yield change.event(keyspace_events.GENERIC, b"del")
        else:
            yield change.event(keyspace_events.NEW, b"new")
            yield change.event(keyspace_events.GENERIC, b"restore")


@command(
    "RESTORE key ttl serialized-value [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]",
    group="generic",
    since="2.6.0",
    complexity="O(n) with n the bytes of the value; O(n log m) for a sorted set of m members",
    write=True,
    grows=True,
    access="OW update",
    categories=("keyspace", "dangerous"),
    fills=fills.restored,
    notifies=_restore_events,
)
def restore(tx: Transaction, args: list[bytes]) -> Reply:
    r"""Create a key from the reply of DUMP, from here or from Redis or Valkey; REPLACE replaces an existing key.

    It dies after so many milliseconds, with ABSTTL at that time, with 0 never. IDLETIME and FREQ are read and mean
    nothing here.

    > RESTORE a 0 "\x00\xc0\x01\t\x00\xf6\x8a\xb6z\x85\x87rM"
    OK
    > GET a
    "1"
    > RESTORE a 0 "\x00\xc0\x01\t\x00\xf6\x8a\xb6z\x85\x87rM"
    (error) BUSYKEY Target key name already exists.
    > RESTORE a 0 "\x00\xc0\x02\t\x00\xf6\x8a\xb6z\x85\x87rM" REPLACE
    (error) ERR DUMP payload version or checksum are wrong
    """
    name = args[0]
    options = _parse_options(args[3:])
    key = tx.find(name)
    if key is not None and not options.replace:
        raise CommandError(BUSY_KEY)
    expire_ms = _parse_expire_ms(args[1], 0 if options.absolute else tx.now_ms)
    content = _parse_payload(args[2]).without_due_fields(tx.now_ms)
    if not content.is_empty and not (expire_ms and expire_ms <= tx.now_ms):
        contents.write(tx, name, key, content, expire_ms)
    elif key is not None:
        tx.delete(key)
    return OK


class _Options(NamedTuple):
    """Whether another key may be replaced, and whether the time is a moment."""

    replace: bool
    absolute: bool


def _parse_options(words: list[bytes]) -> _Options:
    seen: set[bytes] = set()
    at = 0
    while at < len(words):
        option = read_option(words[at])
        if option in {b"IDLETIME", b"FREQ"}:
            other = b"FREQ" if option == b"IDLETIME" else b"IDLETIME"
            at += 1
            if at == len(words) or other in seen:
                raise CommandError(SYNTAX)
            _check_access(option, words[at])
        elif option not in {b"REPLACE", b"ABSTTL"}:
            raise CommandError(SYNTAX)
        seen.add(option)
        at += 1
    return _Options(b"REPLACE" in seen, b"ABSTTL" in seen)


def _check_access(option: bytes, text: bytes) -> None:
    """Refuse what Redis refuses for the time or the frequency of the last access."""
    number = read_integer(text)
    if option == b"IDLETIME" and number < 0:
        raise CommandError(RESTORE_IDLETIME)
    if option == b"FREQ" and not 0 <= number <= _FREQ_MAX:
        raise CommandError(RESTORE_FREQ)


def _parse_expire_ms(text: bytes, start_ms: int) -> int:
    """When the key dies, 0 for never. A time beyond 64 bits is one long past: in Redis the sum overflows."""
    ttl_ms = read_integer(text)
    if ttl_ms < 0:
        raise CommandError(RESTORE_TTL)
    if ttl_ms == 0:
        return 0
    return ttl_ms + start_ms if ttl_ms + start_ms <= INT_MAX else -1


def _parse_payload(payload: bytes) -> Content:
    try:
        return decode(payload)
    except TooLargeError:
        raise CommandError(RESTORE_TOO_LARGE) from None
    except (VersionError, FormatError, UnsupportedError) as error:
        raise CommandError(_REFUSALS[type(error)]) from None
