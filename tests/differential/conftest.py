"""The fixture of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.differential.pair import Oracles
from tests.real.oracle import Oracle


@pytest.fixture
def oracles(oracle_server: Oracle) -> Iterator[Oracles]:
    """A connection for each protocol; the oracle's settings are put back afterwards."""
    with closing(oracle_server.connect()) as resp2, closing(oracle_server.connect()) as resp3:
        resp3.call("HELLO", 3)
        before = resp2.call("CONFIG", "GET", "*max-listpack*")
        yield Oracles(resp2, resp3)
        resp2.call("CONFIG", "SET", *before)
