"""Scripts that meet a limit: nothing of them stays, and the outcome is the same whatever the batch."""

from __future__ import annotations

import inspect
import sys

import pytest

from engine.apply import scripts
from engine.errors import CommandError, StoreBusyError
from engine.scripts.host import ScriptHost, ScriptLimitError
from engine.tables.scripts import digest_of
from engine.values.replies import Reply
from tests.engine.commands.scripting.harness import record
from tests.engine.harness import FINGERPRINT, NOW_MS, new_store, open_machine, records_of

LIMIT = "ERR the script is too long"
MEMORY = "ERR the script is too large"
WRITE, PASS, ALWAYS = "writes", "passes the second time", "never ends"
"""Sources that the runtime of these tests knows."""


class Runtime:
    """A runtime whose scripts write a key, and then meet a limit, or only in a runtime that others have used."""

    def __init__(self, *, fresh: bool = False) -> None:
        self._is_new = fresh

    def check(self, sha: bytes, source: bytes) -> None:
        """Everything compiles."""

    def run(self, sha: bytes, source: bytes, keys: list[bytes], args: list[bytes], host: ScriptHost) -> Reply:
        """Write, and pass or not."""
        reply = host.call([b"INCR", b"runs"])
        if source == ALWAYS.encode():
            raise ScriptLimitError(LIMIT)
        if source == PASS.encode() and not self._is_new:
            raise ScriptLimitError(MEMORY, memory=True)
        return reply


@pytest.fixture(autouse=True)
def runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    """Machines run scripts in that runtime."""
    monkeypatch.setattr(scripts, "ScriptRuntime", Runtime)


def stream() -> list[tuple[str, ...]]:
    """Writes around a script of each kind."""
    kinds = [("EVAL", kind, "0") for kind in (WRITE, PASS, ALWAYS, WRITE)]
    return [step for kind in kinds for step in (("INCR", "before"), kind, ("INCR", "behind"))]


def replayed(batch: int) -> tuple[list[tuple[str, bytes, bytes]], list[object]]:
    """The records and outcomes of the stream, committed each time `batch` records are applied."""
    store = new_store()
    machine = open_machine(store)
    records = [record(number, *words) for number, words in enumerate(stream())]
    outcomes: list[object] = []
    for start in range(0, len(records), batch):
        applied = machine.apply(records[start : start + batch], start, waiting=range(100))
        outcomes += [str(reply) for reply in applied.outcomes.values()]
        machine.commit(FINGERPRINT)
    return records_of(store), outcomes


def test_a_script_that_meets_a_limit_leaves_nothing_behind() -> None:
    """Its writes are gone, its error is its reply; what stands around it is there, and EVALSHA knows it."""
    machine = open_machine(new_store())
    records = [record(0, "INCR", "before"), record(1, "EVAL", ALWAYS, "0"), record(2, "INCR", "behind")]
    applied = machine.apply(records, 0, waiting=range(3))
    machine.commit(FINGERPRINT)
    assert isinstance(applied.outcomes[1], CommandError)
    assert (LIMIT, 1, 3) == (applied.outcomes[1].message, applied.rejected, applied.records)
    assert [b"before", b"behind"] == sorted(machine.read(b"KEYS", [b"*"]))
    assert [1] == machine.read(b"SCRIPT|EXISTS", [digest_of(ALWAYS.encode())])


def test_a_fresh_runtime_has_the_last_word() -> None:
    """A limit that was met in a runtime which others had used decides nothing."""
    machine = open_machine(new_store())
    records = [record(0, "EVAL", WRITE, "0"), record(1, "EVAL", PASS, "0")]
    applied = machine.apply(records, 0, waiting=range(2))
    assert {0: 1, 1: 2} == applied.outcomes


@pytest.mark.parametrize("batch", [2, 3, 5, 12])
def test_batches_make_no_difference(batch: int) -> None:
    """Bytes and outcomes are those of records that are applied one by one."""
    assert replayed(1) == replayed(batch)


def test_what_was_applied_before_and_not_committed_is_the_callers_to_apply_again() -> None:
    """The records of an earlier call are forgotten, too, so the caller has to begin with them."""
    machine = open_machine(new_store())
    first, script = record(0, "INCR", "before"), record(1, "EVAL", ALWAYS, "0")
    machine.apply([first], 0)
    with pytest.raises(StoreBusyError, match="a script is to be tried anew"):
        machine.apply([script], 1)
    assert 0 == machine.next_offset
    assert 2 == machine.apply([first, script], 0).next_offset


def test_only_the_script_of_a_transaction_is_rejected() -> None:
    """The steps around a script that met a limit stand."""
    machine = open_machine(new_store())
    steps = [[b"INCR", b"a"], [b"EVAL", ALWAYS.encode(), b"0"], [b"INCR", b"a"], [b"EVAL", WRITE.encode(), b"0"]]
    outcome = machine.apply([(0, NOW_MS, b"EXEC", steps, 0, None, None)], 0, waiting={0}).outcomes[0]
    assert [1, LIMIT, 2, 1] == [getattr(reply, "message", reply) for reply in outcome]


def test_a_read_is_run_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A read changes nothing: it has its outcome from a fresh runtime, and no batch is thrown away."""
    made: list[Limited] = []

    class Limited(Runtime):
        def run(self, sha: bytes, source: bytes, keys: list[bytes], args: list[bytes], host: ScriptHost) -> Reply:
            made.append(self)
            raise ScriptLimitError(MEMORY, memory=True)

    monkeypatch.setattr(scripts, "ScriptRuntime", Limited)
    with pytest.raises(CommandError, match=MEMORY):
        open_machine(new_store()).read(b"EVAL_RO", [b"", b"0"])
    assert 2 == len(made)
    assert made[0] is not made[1]


def test_any_number_of_scripts_of_one_batch_may_meet_a_limit() -> None:
    """A batch in which each of 200 records meets a limit comes through, in less than a call deep for each of them."""
    machine = open_machine(new_store())
    records = [record(number, "EVAL", ALWAYS, "0") for number in range(200)]
    depth = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + 120)
    try:
        applied = machine.apply(records, 0, waiting=range(200))
    finally:
        sys.setrecursionlimit(depth)
    assert [LIMIT] * 200 == [str(applied.outcomes[number]) for number in range(200)]
