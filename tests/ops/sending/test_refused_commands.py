"""Of every command there is, a producer refuses what a worker would make a dead letter of."""

from __future__ import annotations

from pathlib import Path

import pytest

import engine.commands  # noqa: F401 - fills the registry
import resp.commands  # noqa: F401 - fills the server's registry
from engine.apply.admission import Placement
from engine.commands.registry import SPECS, Spec
from engine.tables.system import Home
from resp.catalog.server_registry import CONTAINERS, SERVER_SPECS
from slotlog.events import encode
from slotlog.producer import prepare, prepare_value
from slotlog.shared.errors import EventError
from slotlog.shared.slots import partition_of, slot
from tests.ops.verbs import run, write_lines

KEY = b"1"
"""A key that is a number, too, so that it can stand for every argument."""


def _worker_takes(spec: Spec, args: list[bytes], partitions: int, *, in_exec: bool) -> bool:
    """Whether a worker applies it, as an event without a session or in such an EXEC."""
    home = Home("t", partition_of(slot(KEY), partitions), partitions, "neokv")
    placement = Placement(home, lambda _key: True)
    try:
        if in_exec:
            placement.check_transaction([[spec.name, *args]], 0)
        else:
            placement.check_event(spec, args, 0, None)
    except EventError:
        return False
    return True


def _producer_takes(name: bytes, args: list[bytes], partitions: int, *, in_exec: bool) -> bool:
    try:
        if in_exec:
            prepare(partitions, "EXEC", [[name, *args]])
        else:
            prepare(partitions, name, args)
    except EventError:
        return False
    return True


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("in_exec", [False, True])
def test_producer_and_worker_refuse_the_same(partitions: int, *, in_exec: bool) -> None:
    """Of all commands a producer refuses those that a worker makes dead letters of, and what is for operators."""
    taken = {True: 0, False: 0}
    for name, spec in SPECS.items():
        args = [KEY] * spec.arguments_min
        expected = _worker_takes(spec, args, partitions, in_exec=in_exec) and not spec.for_operators
        assert (name, expected) == (name, _producer_takes(name, args, partitions, in_exec=in_exec))
        taken[expected] += 1

    assert min(taken.values()) > 10


def test_commands_of_the_server_are_no_events() -> None:
    """What the server answers itself (MULTI, SUBSCRIBE, …) is unknown to a producer, unless it is an event, too."""
    names = [name for name in {*SERVER_SPECS, *CONTAINERS} if name not in SPECS]

    assert {b"MULTI", b"DISCARD", b"SUBSCRIBE", b"BLPOP", b"CLIENT|TRACKING"} <= set(names)
    for name in names:
        for args in ([], [KEY], [KEY, KEY]):
            assert not _producer_takes(name, args, 1, in_exec=False)
            assert not _producer_takes(name, args, 1, in_exec=True)


def test_session_of_an_event_counts() -> None:
    """An event that is there as bytes, with a session, is taken: WATCH of a connection is an event."""
    assert 1 == len(prepare_value(1, encode("WATCH", ["k"], session=b"s" * 16)))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ({"cmd": "WATCH", "args": ["k"]}, "WATCH needs the session of a connection: send it with a Redis client"),
        ({"cmd": "unwatch", "args": []}, "UNWATCH needs the session of a connection: send it with a Redis client"),
        (
            {"cmd": "SELECT", "args": [1]},
            "SELECT is no event of its own: give each event its db, or put SELECT into an EXEC",
        ),
        ({"cmd": "EXEC", "args": [["WATCH", "k"]]}, "WATCH cannot be part of a transaction"),
        ({"cmd": "MULTI", "args": []}, "ERR unknown command 'MULTI'"),
        ({"cmd": "SUBSCRIBE", "args": ["c"]}, "ERR unknown command 'SUBSCRIBE'"),
    ],
)
def test_verb_says_what_to_do(line: dict[str, object], said: str, tmp_path: Path) -> None:
    """`slotlog produce` appends nothing of a command that needs a connection, and says what to do."""
    result = run("produce", write_lines(tmp_path / "events", [line]), "--data", tmp_path / "data")

    assert (1, "0 events appended\n") == (result.exit_code, result.stdout)
    assert f"slotlog: line 1: {said}; nothing from there on was sent\n" == result.stderr


def test_select_in_an_exec(tmp_path: Path) -> None:
    """What is legitimate passes: SELECT and UNWATCH in an EXEC, and MOVE where there is one partition."""
    lines: list[dict[str, object]] = [
        {"cmd": "EXEC", "args": [["SELECT", 1], ["SET", "k", "v"], ["UNWATCH"]]},
        {"cmd": "MOVE", "args": ["k", 0], "db": 1},
    ]
    file = write_lines(tmp_path / "events", lines)

    assert 0 == run("produce", file, "--data", tmp_path / "data").exit_code
    clustered = run("produce", file, "--data", tmp_path / "clustered", "--partitions", 3)
    assert "ERR SELECT is not allowed in cluster mode; nothing from there on was sent" in clustered.stderr
