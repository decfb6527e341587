"""Random sequences of each group of commands: the engine's replies and contents are the oracle's."""

from __future__ import annotations

import os

import pytest

from tests.differential.campaign import first_difference
from tests.differential.loose import ALWAYS_EMPTY
from tests.differential.pair import Oracles, new_tally
from tests.differential.strategy import GROUPS, members_of

FOR_A_NIGHT = "SLOTLOG_DIFFERENTIAL_COMMANDS" in os.environ
COMMANDS_MIN = 16_000
"""Per group, so that each command succeeds and fails often enough."""

COMMANDS = int(
    os.environ.get("SLOTLOG_DIFFERENTIAL_COMMANDS") or os.environ.get("SLOTLOG_DIFFERENTIAL_DOSE") or COMMANDS_MIN
)
"""Per group. With the first one set (`make nightly`: 100,000) the sequences are new; else always the same."""

OCCURRENCES_MIN = 5


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("group", GROUPS)
def test_replies_and_contents_are_the_oracles(group: str, oracles: Oracles) -> None:
    """Whatever the sequence, the batches, the store and the protocol: same replies, same contents at the end.

    And the sequences are worth it: every command of the group succeeded, and failed, often enough.
    """
    tally = new_tally()

    difference = first_difference(group, oracles, tally, COMMANDS, derandomize=not FOR_A_NIGHT)
    if difference:
        pytest.fail(difference, pytrace=False)

    least = min(OCCURRENCES_MIN, OCCURRENCES_MIN * COMMANDS // COMMANDS_MIN)
    rare = {
        name: (tally.full[name], tally.errors[name])
        for name in members_of(group)
        if min((tally.empty if name in ALWAYS_EMPTY else tally.full)[name], tally.errors[name]) < least
    }
    assert {} == rare
