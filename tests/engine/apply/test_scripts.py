"""Scripts that meet a limit: nothing of them stays, and the outcome is the same whatever the batch."""

from __future__ import annotations

from typing import Any

import pytest

from engine.apply import script_runs
from engine.apply.machine import Applied, Machine, Record
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

    def run(
        self, sha: bytes, source: bytes, keys: list[bytes], args: list[bytes], host: ScriptHost, function: bytes
    ) -> Reply:
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
    monkeypatch.setattr(script_runs, "ScriptRuntime", Runtime)


def stream() -> list[tuple[str, ...]]:
    """Writes around a script of each kind."""
    kinds = [("EVAL", kind, "0") for kind in (WRITE, PASS, ALWAYS, WRITE)]
    return [step for kind in kinds for step in (("INCR", "before"), kind, ("INCR", "behind"))]


def run_all(machine: Machine, records: list[Record], batch: int = 1000) -> list[Applied]:
    """Apply the records, and commit each time that `batch` of them are applied, or as many as can be."""
    done: list[Applied] = []
    at = 0
    while at < len(records):
        applied = machine.apply(records[at : at + batch], machine.next_offset, waiting=range(1000))
        machine.commit(FINGERPRINT)
        at += applied.records
        done.append(applied)
    return done


def outcomes_of(done: list[Applied]) -> list[Reply]:
    """The outcomes of all records, in order."""
    return [reply for applied in done for reply in applied.outcomes.values()]


def replayed(batch: int) -> tuple[list[tuple[str, bytes, bytes]], list[str]]:
    """The records and outcomes of the stream, committed each time `batch` records are applied."""
    store = new_store()
    records = [record(number, *words) for number, words in enumerate(stream())]
    done = run_all(open_machine(store), records, batch)
    return records_of(store), list(map(str, outcomes_of(done)))


def test_a_script_that_meets_a_limit_leaves_nothing_behind() -> None:
    """Its writes are gone, its error is its reply; what stands around it is there, and EVALSHA knows it."""
    machine = open_machine(new_store())
    records = [record(0, "INCR", "before"), record(1, "EVAL", ALWAYS, "0"), record(2, "INCR", "behind")]
    before, applied = run_all(machine, records)
    assert isinstance(applied.outcomes[1], CommandError)
    assert (1, 0, LIMIT, 1, 2) == (
        before.records, before.rejected, applied.outcomes[1].message, applied.rejected, applied.records
    )  # fmt: skip
    assert [b"before", b"behind"] == sorted(machine.read(b"KEYS", [b"*"]))
    assert [1] == machine.read(b"SCRIPT|EXISTS", [digest_of(ALWAYS.encode())])


def test_a_fresh_runtime_has_the_last_word() -> None:
    """A limit that was met in a runtime which others had used decides nothing."""
    machine = open_machine(new_store())
    records = [record(0, "EVAL", WRITE, "0"), record(1, "EVAL", PASS, "0")]
    assert [1, 2] == outcomes_of(run_all(machine, records))


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
    assert [1, LIMIT] == [getattr(reply, "message", reply) for reply in outcomes_of(run_all(machine, [first, script]))]


def test_only_the_script_of_a_transaction_is_rejected() -> None:
    """The steps around a script that met a limit stand."""
    machine = open_machine(new_store())
    steps = [[b"INCR", b"a"], [b"EVAL", ALWAYS.encode(), b"0"], [b"INCR", b"a"], [b"EVAL", WRITE.encode(), b"0"]]
    outcome = machine.apply([(0, NOW_MS, b"EXEC", steps, 0, None, None)], 0, waiting={0}).outcomes[0]
    assert [1, LIMIT, 2, 1] == [getattr(reply, "message", reply) for reply in outcome]


def test_a_transaction_bears_eight_scripts_that_meet_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Later scripts of it are refused without a run, and its other steps stand; the next transaction begins anew."""
    runs: list[bytes] = []

    class Counted(Runtime):
        def run(self, sha: bytes, source: bytes, *rest: Any, **more: Any) -> Reply:
            runs.append(source)
            return super().run(sha, source, *rest, **more)

    monkeypatch.setattr(script_runs, "ScriptRuntime", Counted)
    steps = [[b"INCR", b"a"], [b"EVAL", WRITE.encode(), b"0"], *[[b"EVAL", ALWAYS.encode(), b"0"]] * 50]
    steps += [[b"EVAL", WRITE.encode(), b"0"], [b"INCR", b"a"]]
    transactions: list[Record] = [(offset, NOW_MS, b"EXEC", steps, 0, None, None) for offset in range(2)]
    for number, reply in enumerate(outcomes_of(run_all(open_machine(new_store()), transactions))):
        assert isinstance(reply, list)
        refused = "ERR the script was not run: 8 scripts of its transaction have met a limit"
        expected = [2 * number + 1, number + 1, *[LIMIT] * 8, *[refused] * 43, 2 * number + 2]
        assert expected == [getattr(each, "message", each) for each in reply]
    assert (16, 18 + 2) >= (runs.count(ALWAYS.encode()), runs.count(WRITE.encode()))


def test_a_read_is_run_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A read changes nothing: it has its outcome from a fresh runtime, and no batch is thrown away."""
    made: list[Limited] = []

    class Limited(Runtime):
        def run(
            self, sha: bytes, source: bytes, keys: list[bytes], args: list[bytes], host: ScriptHost, function: bytes
        ) -> Reply:
            made.append(self)
            raise ScriptLimitError(MEMORY, memory=True)

    monkeypatch.setattr(script_runs, "ScriptRuntime", Limited)
    with pytest.raises(CommandError, match=MEMORY):
        open_machine(new_store()).read(b"EVAL_RO", [b"", b"0"])
    assert 2 == len(made)
    assert made[0] is not made[1]


def test_a_batch_of_limited_scripts_is_linear(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 200 scripts that meet a limit, each runs once or twice, and what stands between them at most twice."""
    runs: list[bytes] = []

    class Counted(Runtime):
        def run(
            self, sha: bytes, source: bytes, keys: list[bytes], args: list[bytes], host: ScriptHost, function: bytes
        ) -> Reply:
            runs.append(source)
            return super().run(sha, source, keys, args, host, function)

    monkeypatch.setattr(script_runs, "ScriptRuntime", Counted)
    kinds = [kind for _ in range(100) for kind in (ALWAYS, WRITE, PASS)]
    done = run_all(open_machine(new_store()), [record(at, "EVAL", kind, "0") for at, kind in enumerate(kinds)])
    assert [LIMIT] * 100 == list(map(str, outcomes_of(done)))[::3]
    assert 100 == runs.count(ALWAYS.encode())
    assert runs.count(WRITE.encode()) <= 200
    assert runs.count(PASS.encode()) <= 300
