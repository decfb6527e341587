"""Random requests over the wire: slotlog's bytes are the oracle's, in RESP2 and RESP3, but for named exceptions."""

from __future__ import annotations

import json
import os
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from tests.differential.strategy import GROUPS, members_of
from tests.ops.verbs import succeed
from tests.real.oracle import Oracle
from tests.wire.campaign import Servers, first_difference_of_commands, first_difference_of_sessions
from tests.wire.duel import new_tally
from tests.wire.servers import slotlog

FOR_A_NIGHT: Final = "SLOTLOG_DIFFERENTIAL_COMMANDS" in os.environ
COMMANDS: Final = int(os.environ.get("SLOTLOG_DIFFERENTIAL_COMMANDS", "5000"))
"""Commands per group, and twice the turns of sessions. With the variable set the sequences are new."""

REPLAYED: Final = 500
SERVED_MIN: Final = 4


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("group", GROUPS)
def test_replies_and_contents_are_the_oracles(group: str, servers: Servers) -> None:
    """Whatever the sequence, transactions in it, and the protocol: the same bytes, the same contents at the end.

    And the sequences are worth it: every command of the group was served often enough, and refused.
    """
    tally = new_tally()

    difference = first_difference_of_commands(group, servers, tally, COMMANDS, derandomize=not FOR_A_NIGHT)
    if difference:
        pytest.fail(difference, pytrace=False)

    rare = {
        name: (tally.served[name], tally.errors[name])
        for name in members_of(group)
        if tally.served[name] < SERVED_MIN or not tally.errors[name]
    }
    assert {} == rare


@pytest.mark.timeout(3600)
def test_sessions_are_the_oracles(servers: Servers) -> None:
    """Two clients in turns, with everything that belongs to a session: the same bytes, closed at the same moments."""
    difference = first_difference_of_sessions(servers, new_tally(), COMMANDS // 2, derandomize=not FOR_A_NIGHT)
    if difference:
        pytest.fail(difference, pytrace=False)


@pytest.mark.timeout(300)
def test_the_log_holds_what_was_answered(restored_oracle: Oracle, tmp_path: Path) -> None:
    """After many sessions a replay of the log comes to the state that all the replies were given from."""
    with slotlog(tmp_path) as server:
        servers = Servers(server.address, restored_oracle.path)
        with closing(restored_oracle.connect()) as oracle:
            oracle.call("FLUSHALL")
        difference = first_difference_of_sessions(
            servers, new_tally(), REPLAYED, derandomize=not FOR_A_NIGHT, emptied=False
        )
    options = ["--data", tmp_path / "data", "--to", tmp_path / "replayed", "--json"]
    (replayed,) = json.loads(succeed("replay", *options))["partitions"]

    assert "" == difference
    assert replayed["live_digest"] == replayed["digest"]
