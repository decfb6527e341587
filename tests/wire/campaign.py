"""Many random sequences on both sides, until one shows a difference or all are through."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import ExitStack, closing
from typing import Any, Final, NamedTuple

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.differential.minimize import smallest
from tests.differential.pair import encodings
from tests.differential.strategy import STEPS_MAX, Step, sequences
from tests.real.oracle import request as encoded
from tests.wire.conversation import Address, Conversation
from tests.wire.duel import DifferenceError, Sides, Tally
from tests.wire.frames import RawConnection
from tests.wire.sequences import run
from tests.wire.sessions import TURNS_MAX, Turn, comparable, sessions

_PROTOCOLS: Final = (b"2", b"3")


class Servers(NamedTuple):
    """Where both sides are."""

    slotlog: Address
    oracle: Address


class _FoundError(Exception):
    """Ends the search."""


def first_difference_of_commands(
    group: str, servers: Servers, tally: Tally, commands: int, *, derandomize: bool
) -> str:
    """The first difference in about `commands` commands that mostly belong to `group`, empty when there is none.

    With `derandomize` the sequences are the same ones each time.
    """

    def differs(steps: list[Step], protocol: bytes, in_listpacks: bool) -> str:
        with ExitStack() as stack:
            sides = Sides(*(stack.enter_context(closing(RawConnection(address))) for address in servers))
            for side in sides:
                side.ask(encoded(encodings(in_listpacks)) + encoded([b"HELLO", protocol]), 2)
            try:
                run(sides, steps, tally, in_listpacks=in_listpacks)
            except (DifferenceError, TimeoutError) as error:
                return f"RESP{protocol.decode()}, {in_listpacks=}: {error}"
        return ""

    cases = st.tuples(sequences(group), st.sampled_from(_PROTOCOLS), st.booleans())
    return _first(cases, differs, 2 * commands // STEPS_MAX, derandomize=derandomize)


def first_difference_of_sessions(
    servers: Servers, tally: Tally, turns: int, *, derandomize: bool, emptied: bool = True
) -> str:
    """The first difference in sessions of about so many turns; as above. Not `emptied`: what one leaves stays."""

    def differs(some: list[Turn]) -> str:
        if some != comparable(some):  # made small, a session may come to where both sides are known to differ
            return ""
        try:
            Conversation(servers.slotlog, servers.oracle, tally).run(some, emptied=emptied)
        except (DifferenceError, TimeoutError) as error:
            return str(error)
        return ""

    return _first(st.tuples(sessions()), differs, 2 * turns // TURNS_MAX, derandomize=derandomize)


def _first(
    cases: st.SearchStrategy[tuple[Any, ...]], differs: Callable[..., str], examples: int, *, derandomize: bool
) -> str:
    """The difference in the first of `examples` cases that has one, after its sequence, made small."""
    found: list[str] = []

    @settings(max_examples=examples, phases=[Phase.generate], derandomize=derandomize)
    @given(cases)
    def search(case: tuple[Any, ...]) -> None:
        if found:  # Hypothesis asks once more, to be sure; what comes and goes is a difference too
            raise _FoundError
        sequence, *setting = case
        difference = differs(sequence, *setting)
        if difference:
            few = smallest(sequence, lambda some: bool(differs(some, *setting)))
            again = differs(few, *setting) or f"it comes and goes; at first, of {len(sequence)}: {difference}"
            found.append("\n".join([*map(str, few), again]))
            raise _FoundError

    with contextlib.suppress(_FoundError):
        search()
    return found[0] if found else ""
