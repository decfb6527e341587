"""Random Lua programs end as they do in the real servers."""

from __future__ import annotations

from random import Random

from tests.engine.scripts.libraries.comparison import differences, drawn
from tests.engine.scripts.programs import Program
from tests.real.oracle import Connection


def _program(random: Random) -> str:
    return Program(random).text()


def test_any_program_ends_as_in_valkey(oracle: Connection) -> None:
    """Closures, coroutines, metatables, patterns, formats and errors give what they give in valkey-server."""
    assert [] == differences(oracle, drawn(_program, 200), at_once=20)


def test_any_program_ends_as_in_redis(redis: Connection) -> None:
    """The same in Debian's redis-server, with the keys of tables in its order."""
    assert [] == differences(redis, drawn(_program, 100), at_once=20, ordered=True)
