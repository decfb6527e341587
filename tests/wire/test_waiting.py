"""Clients that wait for entries of streams, and what others do meanwhile: slotlog answers whom the oracle answers."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random, SystemRandom
from typing import Final

import pytest

from engine.layouts.layout import Form
from tests.differential.minimize import smallest
from tests.real.oracle import Oracle
from tests.wire.campaign import Servers
from tests.wire.duel import DifferenceError, new_tally
from tests.wire.liar import Lie, liar
from tests.wire.waiting import STEPS_MAX, Play, Stage, plays

pytestmark = pytest.mark.form(Form.STREAMS)

FOR_A_NIGHT: Final = "SLOTLOG_DIFFERENTIAL_COMMANDS" in os.environ
COMMANDS: Final = int(os.environ.get("SLOTLOG_DIFFERENTIAL_COMMANDS", "1500"))
"""About so many steps. With the variable set the plays are new; else always the same."""

ANSWERED_MIN: Final = 20


WAIT: Final = "XREADGROUP GROUP g c BLOCK 0 STREAMS x >"


def first_difference(servers: Servers, seeds: Random, steps: int) -> tuple[str, dict[bytes, int]]:
    """The first difference in plays of about so many steps, after its play, made small; how many were answered late."""
    tally = new_tally()

    def difference(some: list[Play], protocol: int) -> str:
        try:
            Stage(servers, protocol, tally).run(some)
        except (DifferenceError, TimeoutError) as error:
            return str(error)
        return ""

    for number in range(2 * steps // STEPS_MAX):
        seed, protocol = seeds.getrandbits(32), 2 + number % 2
        steps_of_play = plays(Random(seed))
        if found := difference(steps_of_play, protocol):
            few = smallest(steps_of_play, lambda some: bool(difference(some, protocol)))  # noqa: B023 - it is run at once
            return "\n".join([f"seed {seed}", *map(str, few), difference(few, protocol) or found]), tally.served
    return "", tally.served


@pytest.mark.timeout(3600)
def test_the_same_clients_are_answered(servers: Servers) -> None:
    """Whatever is done to the keys and groups for which they wait, in RESP2 and RESP3: they, with the same bytes."""
    difference, answered = first_difference(servers, SystemRandom() if FOR_A_NIGHT else Random(20), COMMANDS)

    assert "" == difference
    assert [] == [name for name in (b"XREAD", b"XREADGROUP") if answered[name] < ANSWERED_MIN]


@pytest.mark.parametrize(
    "lie",
    [
        Lie(b"-NOGROUP ", b"-ERR "),
        Lie(b"$3\r\nDEL\r\n$1\r\nx\r\n", b"$6\r\nEXISTS\r\n$1\r\nx\r\n", asked=True),
    ],
    ids=["another error", "a key that stays"],
)
def test_lies_are_found(lie: Lie, restored_oracle: Oracle, second_oracle: Oracle) -> None:
    """Two oracles answer the same clients, until one of them answers with another error, or lets a client wait."""
    directory = str(Path(second_oracle.path).parent)

    def differs(path: str) -> bool:
        stage = Stage(Servers(path, restored_oracle.path), 2, new_tally(), patience_s=1)
        try:
            stage.run([Play(None, "XGROUP CREATE x g $ MKSTREAM"), Play(0, WAIT), Play(1, WAIT), Play(None, "DEL x")])
        except DifferenceError:
            return True
        return False

    with liar(directory, second_oracle.path, lie) as path:
        assert (False, True) == (differs(second_oracle.path), differs(path))
