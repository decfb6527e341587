"""The comparison itself: it sees differences, makes them small, and leaves no command out."""

from __future__ import annotations

import contextlib
import dataclasses
from collections import Counter
from collections.abc import Callable

import pytest

from engine.apply.machine import Machine
from engine.batch.transaction import Transaction
from engine.cleaning.reclaim import Reclaimed, Reclaimer
from engine.cleaning.sweep import Sweeper, Swept
from engine.commands.registry import SPECS
from engine.commands.usage import KEY_WORDS, arguments
from engine.errors import CommandError
from engine.layouts.layout import Form, Kind
from engine.model import SET
from engine.types import sets
from engine.values.replies import Reply
from tests.differential.campaign import first_difference
from tests.differential.forms import lowered
from tests.differential.minimize import smallest
from tests.differential.pair import Oracles, new_tally
from tests.differential.strategy import GROUPS, is_apart, line_of, members_of, participants
from tests.differential.vocabulary import EXACT_UNTIL_MS, kind_of
from tests.engine.harness import new_store, open_machine, send
from tests.engine.stored import stored
from tests.layouts import holds, refused_commands
from tests.layouts.differences import is_uncounted
from tests.real.oracle import Connection

Handler = Callable[[Transaction, list[bytes]], Reply]


def _off_by_one(handler: Handler) -> Handler:
    return lambda tx, args: handler(tx, args) + 1


def _other_words(handler: Handler) -> Handler:
    def changed(tx: Transaction, args: list[bytes]) -> Reply:
        try:
            return handler(tx, args)
        except CommandError as error:
            raise CommandError(error.message.replace("integer", "number")) from error

    return changed


def _forgets(handler: Handler) -> Handler:
    """It replies as if it had done its work."""
    return lambda tx, args: len(set(args[1:])) if tx.find(args[0]) is None else handler(tx, args)


def _keeps_the_time_to_live(handler: Handler) -> Handler:
    def changed(tx: Transaction, args: list[bytes]) -> Reply:
        key = tx.find(args[0])
        expire_ms = 0 if key is None else key.expire_ms
        reply = handler(tx, args)
        key = tx.find(args[0])
        if key is not None and len(args) == 2:
            tx.expire(key, expire_ms)
        return reply

    return changed


def _counts_what_it_is_given(handler: Handler) -> Handler:
    """The reply of a layout that keeps no count; where the session's layout is one, Redis' reply."""

    def changed(tx: Transaction, args: list[bytes]) -> Reply:
        key = tx.find_typed(args[0], SET)
        new = {member for member in args[1:] if not sets.contains(key, member)}
        handler(tx, args)
        return len(new) if is_uncounted() else len(args) - 1

    return changed


@pytest.mark.parametrize(
    ("group", "name", "bug"),
    [
        ("string", b"STRLEN", _off_by_one),
        ("set", b"SADD", _counts_what_it_is_given),
        ("hash", b"HDEL", _off_by_one),
        ("hash", b"HINCRBY", _other_words),
        ("set", b"SADD", _forgets),
        ("string", b"SET", _keeps_the_time_to_live),
        ("server", b"DBSIZE", _off_by_one),
    ],
)
def test_planted_differences_are_found(
    group: str, name: bytes, bug: Callable[[Handler], Handler], oracles: Oracles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong reply, error text, content or expiry in one command is found, and shown in at most four steps.

    So is another count than the layout declares, and one that a layout which declares nothing makes differ.
    """
    spec = SPECS[name]
    monkeypatch.setitem(SPECS, name, dataclasses.replace(spec, handler=bug(spec.handler)))

    difference = first_difference(group, oracles, new_tally(), 2000, derandomize=True)

    assert name.decode() in difference.upper()
    assert difference.count("Step(") <= 4


def test_cleaning_that_takes_too_much_is_found(oracles: Oracles, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sweep that removes what is not due yet is a difference; the sequence needs no more than making such a key."""
    begin = Machine.begin_cleaning

    def hasty(machine: Machine) -> Transaction:
        tx = begin(machine)
        tx.now_ms = EXACT_UNTIL_MS
        return tx

    monkeypatch.setattr(Machine, "begin_cleaning", hasty)

    difference = first_difference("string", oracles, new_tally(), 2000, derandomize=True)

    assert "cleaned=True" in difference
    assert difference.count("Step(") <= 4


def test_cleaning_has_something_to_do(oracles: Oracles, monkeypatch: pytest.MonkeyPatch) -> None:
    """In sequences of hashes keys go, fields go and dead collections go, between commands and not at the end alone."""
    gone: Counter[str] = Counter()
    expire, reclaim = Sweeper.expire, Reclaimer.reclaim

    def count_expired(sweeper: Sweeper, keys_max: int) -> Swept:
        swept = expire(sweeper, keys_max)
        gone.update(
            keys=len(swept.keys), fields=len(swept.fields), sweeps=bool(swept.keys or swept.fields) and keys_max < 1000
        )
        return swept

    def count_reclaimed(reclaimer: Reclaimer, records_max: int) -> Reclaimed:
        reclaimed = reclaim(reclaimer, records_max)
        gone.update(graves=reclaimed.graves, slices=bool(reclaimed.graves) and records_max < 1000)
        return reclaimed

    monkeypatch.setattr(Sweeper, "expire", count_expired)
    monkeypatch.setattr(Reclaimer, "reclaim", count_reclaimed)

    assert not first_difference("hash", oracles, new_tally(), 4000, derandomize=True)
    expected = ["keys", "sweeps", "graves", "slices", *(["fields"] if holds(Form.FIELD_TIMES) else [])]
    assert [] == [what for what in expected if gone[what] < 10]


@pytest.mark.form(Form.RANK_COUNTS, Form.FRAGMENTS)
def test_small_values_get_the_forms_of_large_ones() -> None:
    """Under lowered limits five members have rank counts and 600 bytes are in fragments; else neither."""
    found: list[dict[str, bool]] = []
    for limits in (lowered(), contextlib.nullcontext()):
        store = new_store()
        with limits:
            send(open_machine(store), "ZADD z 1 a 2 b 3 c 4 d 5 e", "SETRANGE s 599 x")
        counts = {kind: len(stored(store, kind)) for kind in (Kind.RANKS, Kind.DATA)}
        found.append({"counts": counts[Kind.RANKS] > 0, "fragments": counts[Kind.DATA] > 5})

    assert [{"counts": True, "fragments": True}, {"counts": False, "fragments": False}] == found


def test_every_command_takes_part() -> None:
    """Each command that Redis has, too, belongs to one of the groups that are compared."""
    compared = {name for name, spec in SPECS.items() if spec.of == "redis" and not is_apart(spec)}
    refused = refused_commands()

    assert compared - refused == {name for group in GROUPS for name in members_of(group)}


def test_every_argument_has_values() -> None:
    """Each word of each usage line has values to draw from: a new word is noticed here."""
    words = [
        (name.decode(), word)
        for name, spec in participants().items()
        for word in arguments(line_of(spec))
        if word not in KEY_WORDS
    ]

    assert [] == [(name, word) for name, word in words if not kind_of(name, word).usual]


def test_arity_is_the_oracles(oracle: Connection) -> None:
    """The least number of arguments, and whether more may follow, are what the oracle's COMMAND INFO says."""
    names = list(participants())
    expected = {reply[0].upper(): reply[1] for reply in oracle.call("COMMAND", "INFO", *names)}

    actual = {}
    for name in names:
        spec = SPECS[name]
        exact = spec.arguments_max == spec.arguments_min
        count = spec.arguments_min + 1 + name.count(b"|")  # the words of its name count
        actual[name] = count if exact else -count

    assert expected == actual


def test_smallest_keeps_what_is_needed() -> None:
    """Of a hundred steps the two that make the failure stay, in their order."""
    assert [17, 80] == smallest(list(range(100)), lambda steps: {17, 80} <= set(steps))
