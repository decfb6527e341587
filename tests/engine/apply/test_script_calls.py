"""The commands that scripts call are counted where somebody waits for the script, and once."""

from __future__ import annotations

from engine.apply.script_calls import ScriptCalls
from engine.store.memory import MemoryStore
from tests.engine.harness import open_machine
from tests.layouts import column_families

CALLS = b"redis.call('SET', 'a', 1) redis.pcall('LPUSH', 'a', 1) redis.pcall('NOSUCH') redis.call('PING')"


def script(offset: int, source: bytes) -> tuple[int, int, bytes, list[bytes], int, None, None]:
    """Its record."""
    return (offset, 1, b"EVAL", [source, b"0"], 0, None, None)


def test_only_what_somebody_waits_for_is_counted() -> None:
    """A follower, a replay or a worker that takes a partition over applies the event, and counts nothing."""
    machine = open_machine(MemoryStore(column_families()))
    sent = machine.apply([script(0, CALLS)], 0, {0}).script_calls
    assert sent is not None
    assert {b"SET": 1, b"LPUSH": 1, b"PING": 1} == sent.calls
    assert ({b"LPUSH": 1}, {b"NOSUCH": 1}) == (sent.failed, sent.rejected)
    assert {"WRONGTYPE": 1, "ERR": 1} == sent.errors
    assert machine.apply([script(1, CALLS)], 1, {2}).script_calls is None


def test_reads_are_told_of_when_they_have_run() -> None:
    """A read is counted by whoever asks for it; without anybody it runs all the same."""
    machine = open_machine(MemoryStore(column_families()))
    told: list[ScriptCalls] = []
    read = [b"return redis.call('GET', 'a')", b"0"]
    assert machine.read(b"EVAL_RO", read) is None
    machine.scripts.take_calls = told.append
    assert machine.read(b"EVAL_RO", read) is None
    assert [{b"GET": 1}] == [calls.calls for calls in told]


def test_what_is_applied_again_is_counted_once() -> None:
    """A script that meets a limit lets those before it be applied again: they count once."""
    machine = open_machine(MemoryStore(column_families()))
    records = [script(0, CALLS), script(1, b"redis.call('GET', 'a') return string.rep('x', 2^28)")]
    applied = machine.apply(records, 0, {0, 1})
    assert (1, {b"SET": 1, b"LPUSH": 1, b"PING": 1}) == (
        applied.records,
        applied.script_calls and applied.script_calls.calls,
    )


class Timer:
    """Numbers the commands that begin, and notes those that have run."""

    def __init__(self) -> None:
        self.begun = 0.0
        self.ended: list[tuple[float, bytes]] = []

    def begin(self) -> float:
        """As `CallTimer.begin`."""
        self.begun += 1
        return self.begun

    def end(self, began: float, words: list[bytes]) -> None:
        """As `CallTimer.end`."""
        self.ended.append((began, b" ".join(words)))


def test_what_runs_is_measured_where_it_is_counted() -> None:
    """What runs is measured, also if it fails; not what is refused, nor a script that nobody here waits for."""
    machine = open_machine(MemoryStore(column_families()))
    timer = machine.scripts.timer = Timer()
    machine.apply([script(0, CALLS)], 0, {0})
    machine.apply([script(1, CALLS)], 1, {2})
    assert [(1, b"SET a 1"), (2, b"LPUSH a 1"), (3, b"PING")] == timer.ended
    read = [b"redis.pcall('SET', 'a', 1) return redis.call('GET', 'a')", b"0"]
    machine.read(b"EVAL_RO", read)
    assert 3 == timer.begun
    machine.scripts.take_calls = lambda _: None
    machine.read(b"EVAL_RO", read)
    assert [(4, b"GET a")] == timer.ended[3:]
