"""Keys of a server that are read in pieces: large ones, and those whose DUMP cannot be read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ops.importing.redis import source as redis_source
from ops.importing.redis.pieces import Reading
from ops.importing.redis.server import Server
from tests.ops.importing.contents import differing, fill, of_log, of_server
from tests.ops.verbs import run, succeed
from tests.real.oracle import Connection, Oracle


@pytest.fixture
def source(oracle: Connection) -> Connection:
    """The session's server, with keys of every kind."""
    oracle.call("FUNCTION", "FLUSH")
    fill(oracle)
    oracle.call("HSET", "timed", "f", "v", "g", "w")
    oracle.call("HPEXPIREAT", "timed", 9_300_000_000_000, "FIELDS", 1, "f")
    return oracle


@pytest.fixture
def all_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every key is read in pieces."""
    monkeypatch.setattr(redis_source, "LARGE_BYTES", 0)


def imported(source: Oracle, data: Path) -> dict[str, Any]:
    """The result of an import that has to be whole."""
    result: dict[str, Any] = json.loads(succeed("import", f"unix://{source.path}", "--data", data, "--json"))
    return result


@pytest.mark.usefixtures("all_large")
def test_pieces_come_to_the_same(source: Connection, oracle_server: Oracle, data: Path, tmp_path: Path) -> None:
    """Every type, read in pieces, is the same after; a second run finds no difference, and a third what changed."""
    first, second = imported(oracle_server, data), imported(oracle_server, data)
    source.pipeline([("RPUSH", "long list", "more"), ("DEL", "large set"), ("HDEL", "large hash", "field 1")])
    third = imported(oracle_server, data)

    assert (20, 0) == (first["keys"], second["events"])
    assert {"deleted": 1, "hash": 1, "list": 1} == third["types"]
    assert [] == differing(of_server(source, (0, 3)), of_log(tmp_path / "state", "--data", data))
    assert [["f", 9_300_000_000_000]] == field_times(tmp_path / "state")


@pytest.mark.usefixtures("all_large")
def test_empty_string_in_pieces_is_one(source: Connection, oracle_server: Oracle, data: Path, tmp_path: Path) -> None:
    """A string without a byte, which a newer server's DUMP brings to this way as well, is a key like any other."""
    source.call("SET", "empty", "")
    source.call("SET", "empty and dying", "", "PXAT", 9_000_000_000_000)
    first, second = imported(oracle_server, data), imported(oracle_server, data)
    found = of_log(tmp_path / "state", "--data", data)

    assert (22, 0) == (first["keys"], second["events"])
    assert [("string", b"", None), ("string", b"", 9_000_000_000_000)] == [
        found[0, name] for name in (b"empty", b"empty and dying")
    ]


def field_times(state: Path) -> Any:
    """The times to live of the fields of `timed`."""
    lines = map(json.loads, succeed("dump", "--data", state).splitlines())
    return next(line["field_expire_ms"] for line in lines if line["key"] == "timed")


def test_key_larger_than_an_event_comes_over(
    source: Connection, oracle_server: Oracle, data: Path, tmp_path: Path
) -> None:
    """Strings and collections beyond 8 MiB come as several events, and are the same after."""
    source.call("SET", "large string", "0123456789" * 1_000_000, "PXAT", 9_000_000_000_000)
    for start in range(0, 100, 10):
        texts = [f"{number} " + "v" * 100_000 for number in range(start, start + 10)]
        source.call("RPUSH", "huge list", *texts)
        source.call("HSET", "huge hash", *(word for text in texts for word in (text[:9], text)))
        source.call("SADD", "huge set", *texts)
        source.call("ZADD", "huge zset", *(word for number, text in enumerate(texts) for word in (number / 3, text)))
    first, second = imported(oracle_server, data), imported(oracle_server, data)

    assert (25, 0) == (first["keys"], second["events"])
    assert first["events"] > first["keys"]
    assert [] == differing(of_server(source, (0, 3)), of_log(tmp_path / "state", "--data", data))


def test_element_larger_than_an_event_is_left_out(
    source: Connection, oracle_server: Oracle, data: Path, tmp_path: Path
) -> None:
    """A key with an element that no event can hold is listed; nothing of it is in slotlog, and the rest comes over."""
    source.call("RPUSH", "wide", "small", "v" * 9_000_000)
    result = json.loads(run("import", f"unix://{oracle_server.path}", "--data", data, "--json").stdout)
    expected = of_server(source, (0, 3))
    del expected[0, b"wide"]

    assert {"too large": 1} == result["left_out"]
    assert "an element of 8.6 MiB: an event takes at most 8.0 MiB" == result["first_left_out"][0]["reason"]
    assert [] == differing(expected, of_log(tmp_path / "state", "--data", data))


@pytest.mark.usefixtures("all_large", "module_values")
def test_types_that_are_not_held_are_left_out(source: Connection, oracle_server: Oracle, data: Path) -> None:
    """A large value of a module is listed as a small one is, and a key that it has replaced is deleted."""
    imported(oracle_server, data)
    source.call("DEL", "text")
    source.call("XADD", "text", "*", "a", "b")
    result = json.loads(run("import", f"unix://{oracle_server.path}", "--data", data, "--json").stdout)

    assert ({"deleted": 1}, {"ReJSON-RL": 1}) == (result["types"], result["left_out"])


@pytest.fixture
def reading(source: Connection, oracle_server: Oracle) -> Iterator[Reading]:
    """One of the key `long list`."""
    server = Server(f"unix://{oracle_server.path}")
    reading = Reading(server, 0, b"long list")
    yield reading
    reading.end()
    server.close()


@pytest.mark.parametrize(
    ("command", "unchanged"),
    [(("SET", "another", 1), True), (("RPUSH", "long list", "x"), False), (("DEL", "long list"), False)],
)
def test_change_while_it_is_read_is_noticed(
    command: tuple[Any, ...], unchanged: bool, reading: Reading, source: Connection
) -> None:
    """A key that changed, or went away, between the first command and the last is known not to be read whole."""
    reading.survey()
    source.call(*command)
    events = list(reading.events())

    assert unchanged == reading.unchanged
    assert (b"DEL", [b"long list"]) == events[0] if command[0] == "DEL" else events[0][0] == b"EXEC"


@pytest.mark.parametrize("step", ["survey", "events"])
def test_key_of_another_type_meanwhile_is_brought_again(
    step: str,
    source: Connection,
    oracle_server: Oracle,
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    all_large: None,
) -> None:
    """A key that is replaced by one of another type while it is read does not end the import; a later pass has it."""
    real = getattr(Reading, step)
    replaced: list[bytes] = []

    def replacing(reading: Reading) -> Any:
        if reading.kind == "list" and not replaced:
            replaced.append(reading._name)
            source.pipeline([("DEL", reading._name), ("SADD", reading._name, "a")])
        return real(reading)

    monkeypatch.setattr(Reading, step, replacing)
    imported(oracle_server, data)

    assert 1 == len(replaced)
    assert [] == differing(of_server(source, (0, 3)), of_log(tmp_path / "state", "--data", data))


def test_torn_key_is_brought_again(
    source: Connection,
    oracle_server: Oracle,
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    all_large: None,
) -> None:
    """A key that changes while it is read is brought whole by a later pass of the same run."""
    real = Reading.events
    writes = iter(range(3))

    def events(reading: Reading) -> Iterator[Any]:
        for number in writes:
            source.call("LPUSH", "long list", number)
            break
        yield from real(reading)

    monkeypatch.setattr(Reading, "events", events)
    imported(oracle_server, data)

    assert [] == differing(of_server(source, (0, 3)), of_log(tmp_path / "state", "--data", data))


@pytest.mark.usefixtures("all_large")
def test_string_longer_than_a_key_may_be_is_left_out(
    oracle: Connection, oracle_server: Oracle, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server with a raised `proto-max-bulk-len` may have one: it is named, though each of its pieces would fit."""
    monkeypatch.setattr("ops.importing.key_events.STRING_BYTES_MAX", 2_500_000)
    oracle.call("SET", "short", "x" * 2_500_000)
    oracle.call("SET", "long", "x" * 2_500_001)
    result = run("import", f"unix://{oracle_server.path}", "--data", data)

    assert 1 == result.exit_code
    assert "1 key in " in result.stdout
    assert 'left out: db 0: too large "long": a string of more than 2.4 MiB' in result.stderr
