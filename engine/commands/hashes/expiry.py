"""Times to live of a hash's fields, as in Redis 7.4. Source: https://redis.io/docs/latest/commands/hexpire/.

A field whose time has come counts as absent, and a hash without any other field as a key that is absent.
"""

from __future__ import annotations

from typing import Final

from engine.batch.transaction import Transaction
from engine.commands.expire_options import conditions_hold
from engine.commands.hashes.field_options import (
    exactly_counted,
    parse_field_conditions,
    parse_positive_expire_ms,
    split_at_fields,
)
from engine.commands.hashes.notifications import of_hexpire
from engine.commands.options import read_option
from engine.commands.registry import command
from engine.errors import FIELDS_MISSING, NUMFIELDS_NOT_POSITIVE, NUMFIELDS_TOO_SMALL, CommandError
from engine.model import HASH
from engine.types.hash import field_expiry
from engine.values.replies import Reply

_COMPLEXITY: Final = "O(fields)"

# ------------------------------------------------------------------ giving and taking them


@command(
    "HEXPIRE key seconds [NX|XX|GT|LT] FIELDS numfields field [field ...]",
    group="hash",
    since="7.4.0",
    complexity=_COMPLEXITY,
    write=True,
    fast=True,
    notifies=of_hexpire(1000, relative=True),
)
def hexpire(tx: Transaction, args: list[bytes]) -> Reply:
    """Set the time to live of fields in seconds; 0 deletes them. Returns a code for each field.

    1, it will die then; 2, it was deleted; 0, a condition does not hold; -2, there is no such field. The conditions are
    those of EXPIRE: NX, it has no time to live yet; XX, it has one; GT, it would live longer; LT, it would die sooner.

    > HSET h a "1" b "2"
    (integer) 2
    > HEXPIRE h 60 FIELDS 2 a none
    1) (integer) 1
    2) (integer) -2
    > HEXPIRE h 30 GT FIELDS 2 a b
    1) (integer) 0
    2) (integer) 0
    > HEXPIRE h 0 FIELDS 1 b
    1) (integer) 2
    > HTTL h FIELDS 2 a b
    1) (integer) 60
    2) (integer) -2
    """
    return _expire(tx, args, 1000, tx.now_ms, "hexpire")


@command(
    "HPEXPIRE key milliseconds [NX|XX|GT|LT] FIELDS numfields field [field ...]",
    group="hash",
    since="7.4.0",
    complexity=_COMPLEXITY,
    write=True,
    fast=True,
    notifies=of_hexpire(1, relative=True),
)
def hpexpire(tx: Transaction, args: list[bytes]) -> Reply:
    """Set the time to live of fields in milliseconds; see HEXPIRE.

    > HSET h a "1"
    (integer) 1
    > HPEXPIRE h 60000 FIELDS 1 a
    1) (integer) 1
    > HTTL h FIELDS 1 a
    1) (integer) 60
    """
    return _expire(tx, args, 1, tx.now_ms, "hpexpire")


@command(
    "HEXPIREAT key unix-time-seconds [NX|XX|GT|LT] FIELDS numfields field [field ...]",
    group="hash",
    since="7.4.0",
    complexity=_COMPLEXITY,
    write=True,
    fast=True,
    notifies=of_hexpire(1000, relative=False),
)
def hexpireat(tx: Transaction, args: list[bytes]) -> Reply:
    """Set when fields expire, as Unix time in seconds; see HEXPIRE.

    > HSET h a "1"
    (integer) 1
    > HEXPIREAT h 4102444800 FIELDS 1 a
    1) (integer) 1
    > HPEXPIRETIME h FIELDS 1 a
    1) (integer) 4102444800000
    """
    return _expire(tx, args, 1000, 0, "hexpireat")


@command(
    "HPEXPIREAT key unix-time-milliseconds [NX|XX|GT|LT] FIELDS numfields field [field ...]",
    group="hash",
    since="7.4.0",
    complexity=_COMPLEXITY,
    write=True,
    fast=True,
    notifies=of_hexpire(1, relative=False),
)
def hpexpireat(tx: Transaction, args: list[bytes]) -> Reply:
    """Set when fields expire, as Unix time in milliseconds; see HEXPIRE.

    > HSET h a "1" b "2"
    (integer) 2
    > HPEXPIREAT h 4102444800123 FIELDS 1 a
    1) (integer) 1
    > HPEXPIRETIME h FIELDS 2 a b
    1) (integer) 4102444800123
    2) (integer) -1
    """
    return _expire(tx, args, 1, 0, "hpexpireat")


def _expire(tx: Transaction, args: list[bytes], unit_ms: int, start_ms: int, name: str) -> list[int]:
    """Redis looks at the key first, then at the time, the condition and the fields."""
    key = tx.find_typed(args[0], HASH)
    expire_ms = parse_positive_expire_ms(args[1], unit_ms, start_ms, name)
    words, behind = split_at_fields(args, 2, error=FIELDS_MISSING)
    conditions = parse_field_conditions(words)
    fields = exactly_counted(behind, error=NUMFIELDS_TOO_SMALL)
    if key is None:
        return [field_expiry.ABSENT] * len(fields)
    return field_expiry.expire(
        tx, key, fields, expire_ms, lambda old_ms: conditions_hold(conditions, old_ms, expire_ms)
    )


@command(
    "HPERSIST key FIELDS numfields field [field ...]",
    group="hash",
    since="7.4.0",
    complexity=_COMPLEXITY,
    write=True,
    fast=True,
    notifies="hpersist",
)
def hpersist(tx: Transaction, args: list[bytes]) -> Reply:
    """Remove the time to live of fields. Returns for each 1; -1 when it had none, -2 when it is absent.

    > HSET h a "1" b "2"
    (integer) 2
    > HEXPIRE h 60 FIELDS 1 a
    1) (integer) 1
    > HPERSIST h FIELDS 3 a b none
    1) (integer) 1
    2) (integer) -1
    3) (integer) -2
    """
    key = tx.find_typed(args[0], HASH)
    fields = _named_fields(args)
    return [field_expiry.ABSENT] * len(fields) if key is None else field_expiry.persist(tx, key, fields)


# ------------------------------------------------------------------ what is left of them


@command(
    "HTTL key FIELDS numfields field [field ...]",
    group="hash",
    since="7.4.0",
    complexity=_COMPLEXITY,
    by_wall=True,
    fast=True,
)
def httl(tx: Transaction, args: list[bytes]) -> Reply:
    """Return each field's time to live in seconds, rounded up; -1 when it has none, -2 when it is absent.

    > HSETEX h PX 60000 FIELDS 1 a "1"
    (integer) 1
    > HSET h b "2"
    (integer) 1
    > HTTL h FIELDS 3 a b none
    1) (integer) 60
    2) (integer) -1
    3) (integer) -2
    """
    return _shown(tx, args, 1000, tx.now_ms)


@command(
    "HPTTL key FIELDS numfields field [field ...]",
    group="hash",
    since="7.4.0",
    complexity=_COMPLEXITY,
    by_wall=True,
    fast=True,
)
def hpttl(tx: Transaction, args: list[bytes]) -> Reply:
    """Return each field's time to live in milliseconds; -1 when it has none, -2 when it is absent.

    > HSETEX h EX 60 FIELDS 1 a "1"
    (integer) 1
    > HPTTL h FIELDS 1 a
    1) (integer) 60000
    """
    return _shown(tx, args, 1, tx.now_ms)


@command(
    "HEXPIRETIME key FIELDS numfields field [field ...]", group="hash", since="7.4.0", complexity=_COMPLEXITY, fast=True
)
def hexpiretime(tx: Transaction, args: list[bytes]) -> Reply:
    """Return when each field expires, as Unix time in seconds, rounded up; -1 for never, -2 when it is absent.

    > HSETEX h PXAT 4102444801000 FIELDS 1 a "1"
    (integer) 1
    > HEXPIRETIME h FIELDS 2 a none
    1) (integer) 4102444801
    2) (integer) -2
    """
    return _shown(tx, args, 1000, 0)


@command(
    "HPEXPIRETIME key FIELDS numfields field [field ...]",
    group="hash",
    since="7.4.0",
    complexity=_COMPLEXITY,
    fast=True,
)
def hpexpiretime(tx: Transaction, args: list[bytes]) -> Reply:
    """Return when each field expires, as Unix time in milliseconds; -1 for never, -2 when it is absent.

    > HSETEX h EXAT 4102444800 FIELDS 1 a "1"
    (integer) 1
    > HPEXPIRETIME h FIELDS 1 a
    1) (integer) 4102444800000
    """
    return _shown(tx, args, 1, 0)


def _shown(tx: Transaction, args: list[bytes], unit_ms: int, start_ms: int) -> list[int]:
    """The fields' times behind `start_ms`, rounded up to the unit."""
    key = tx.find_typed(args[0], HASH)
    times_ms = field_expiry.expire_times(tx, key, _named_fields(args))
    return [time_ms if time_ms < 0 else -((start_ms - time_ms) // unit_ms) for time_ms in times_ms]


def _named_fields(args: list[bytes]) -> list[bytes]:
    """The fields of `key FIELDS numfields field [field ...]`.

    Raises:
        CommandError: FIELDS is missing, or as `exactly_counted`.
    """
    if read_option(args[1]) != b"FIELDS":
        raise CommandError(FIELDS_MISSING)
    return exactly_counted(args[2:], error=NUMFIELDS_NOT_POSITIVE)
