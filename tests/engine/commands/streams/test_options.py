"""Every sequence of a few option words of XADD and XTRIM, accepted or refused as by the oracle."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, Final

import pytest

from engine.apply.machine import Machine
from engine.errors import CommandError
from engine.layouts.layout import Form
from tests.engine.harness import NOW_MS, new_store, open_machine, send
from tests.real.oracle import Connection, ErrorReply

pytestmark = pytest.mark.form(Form.STREAMS)

WORDS_MAX: Final = int(os.environ.get("SLOTLOG_OPTION_WORDS", "3"))
AT_ONCE: Final = 1000
START: Final = ("DEL s", "XADD s 1-1 a b", "XADD s 1-2 a b", "XADD s 3-5 a b")
OPTIONS: Final = ("MAXLEN", "minid", "~", "=", "LIMIT", "0", "2", "-1", "abc", "5-5")


def commands() -> Iterator[str]:
    """All of them, with up to so many words."""
    for count in range(WORDS_MAX + 1):
        for words in product(OPTIONS, repeat=count):
            yield " ".join(("XTRIM s", *words))
    for count in range(WORDS_MAX):
        for words in product((*OPTIONS, "NOMKSTREAM", "*", "4-*"), repeat=count):
            for fields in ((), ("f",), ("f", "v")):
                yield " ".join(("XADD s", *words, *fields))


def by_oracle(oracle: Connection, some: Sequence[str]) -> list[str]:
    """The text of each error; empty where it was accepted."""
    replies = oracle.pipeline(line.split() for command in some for line in (*START, command))
    return [
        each.text.decode() if isinstance(each, ErrorReply) else "" for each in replies[len(START) :: len(START) + 1]
    ]


def by_engine(machine: Machine, some: Sequence[str]) -> list[str]:
    """The same of the engine."""
    outcomes = send(machine, *(line for command in some for line in (*START, command)), at_ms=NOW_MS)
    return [_text(each) for each in outcomes[len(START) :: len(START) + 1]]


def _text(outcome: Any) -> str:
    """The text of an error; that of a dead letter, too, which an event with too few arguments is."""
    return outcome.message if isinstance(outcome, CommandError) else outcome if isinstance(outcome, str) else ""


def test_accepted_and_refused_as_by_the_oracle(oracle: Connection) -> None:
    """With the same error, whatever is missing, stands twice, or does not go together."""
    machine, all_of_them = open_machine(new_store()), list(commands())
    different = []
    for at in range(0, len(all_of_them), AT_ONCE):
        some = all_of_them[at : at + AT_ONCE]
        different += [
            (command, theirs, ours)
            for command, theirs, ours in zip(some, by_oracle(oracle, some), by_engine(machine, some), strict=True)
            if theirs != ours
        ]

    assert [] == different
