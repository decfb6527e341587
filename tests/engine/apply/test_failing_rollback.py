"""A batch is thrown away where the store cannot be read."""

from __future__ import annotations

from collections.abc import Iterator
from unittest.mock import patch

import pytest

from engine.store.memory import MemoryStore
from engine.tables.scripts import digest_of
from tests.engine.harness import apply, event, new_store, open_machine, send

ONE, TWO = b"return 1", b"return 2"
LIBRARY = b"#!lua name=lib\nredis.register_function('f', function() return 7 end)"


def _failing(*_: object) -> Iterator[tuple[bytes, bytes]]:
    raise OSError


def test_throwing_a_batch_away_reads_nothing() -> None:
    """So it cannot stop half way: scripts, libraries and counts are those of the last commit, and the log goes on."""
    store: MemoryStore = new_store()
    machine = open_machine(store)
    send(machine, [[b"SCRIPT|LOAD", ONE], [b"FUNCTION|LOAD", LIBRARY], [b"RPUSH", b"l", b"a", b"b", b"c"]])
    start = machine.next_offset
    steps = [[b"EVAL", TWO, b"0"], [b"SCRIPT|LOAD", TWO], [b"FUNCTION|FLUSH"], [b"COPY", b"l", b"copied"]]
    apply(machine, event(start, steps))
    with patch.object(store, "scan", _failing), patch.object(store, "getter", _failing):
        machine.rollback()

    assert start == machine.next_offset
    assert [1, 0] == send(machine, [[b"SCRIPT|EXISTS", digest_of(ONE).lower(), digest_of(TWO)]])[0][0]
    assert [[7]] == send(machine, [[b"FCALL", b"f", b"0"]])
    assert [1, 3] == send(machine, "COPY l copied", "LLEN copied")


@pytest.mark.parametrize("commands", [1, 2])
def test_what_a_later_batch_brings_is_thrown_away_alone(commands: int) -> None:
    """After a commit the next batch begins from there, however many scripts it brings."""
    machine = open_machine(new_store())
    send(machine, [[b"SCRIPT|LOAD", ONE]])
    sources = [b"return %d" % (10 + number) for number in range(commands)]
    apply(machine, event(machine.next_offset, [[b"SCRIPT|LOAD", source] for source in sources]))
    machine.rollback()

    asked = [digest_of(source) for source in (ONE, *sources)]
    assert [[[1, *[0] * commands]]] == send(machine, [[b"SCRIPT|EXISTS", *asked]])
