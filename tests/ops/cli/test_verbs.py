"""Events in, state out, by the command line alone: produce, serve, query, digest, dump, replay, on both logs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pytest

from engine import native
from engine.tables.system import replaying_changes
from ops.cli.other.version import is_older_than_source
from ops.config import load_settings
from ops.state.opening.directories import store_opener
from tests.faults.service import ServiceProcess
from tests.ops.verbs import run, succeed, wait_for_offset, write_lines

EVENTS: list[dict[str, Any]] = [
    {"cmd": "SET", "args": ["gone", "1", "PX", 1]},
    *({"cmd": "INCR", "args": ["counter"]} for _ in range(20)),
    {"cmd": "HSET", "args": ["user:1", "name", "Ann", "raw", {"base64": "/wA="}]},
    {"cmd": "ZADD", "args": ["scores", 1.5, "a", 2, "b"]},
    {"cmd": "RPUSH", "args": ["list", "x", "y", "z"]},
    {"cmd": "SADD", "args": ["set", "m"]},
    {"cmd": "EXEC", "args": [["SET", "t", "1"], ["INCR", "list"], ["INCR", "t"]]},
    {"cmd": "INCR", "args": ["once"], "id": "order:9"},
    {"cmd": "INCR", "args": ["once"], "id": "order:9"},
    {"cmd": "SET", "args": ["elsewhere", "7"], "db": 3},
    {"cmd": "XADD", "args": ["stream", "1000-1", "name", "Ann"]},
    {"cmd": "XGROUP|CREATE", "args": ["stream", "crew", "0"]},
    {"cmd": "XREADGROUP", "args": ["GROUP", "crew", "one", "STREAMS", "stream", ">"]},
    {"cmd": "HSETEX", "args": ["user:2", "PXAT", 4102444800000, "FIELDS", 1, "token", "x"]},
]


class Lived(NamedTuple):
    """A state that a service has made, and the options that name it."""

    data: Path
    options: list[str]


@pytest.fixture(scope="module", params=["embedded", "kafka"])
def lived(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Lived:
    """A state, made by `produce` and `serve` from EVENTS, on each log."""
    directory = tmp_path_factory.mktemp("lived")
    data = directory / "data"
    options = ["--data", str(data), "--topic", f"verbs-{uuid4().hex}"]
    if request.param == "kafka":
        options += ["--log", f"kafka://{request.getfixturevalue('kafka_bootstrap')}"]
    half = len(EVENTS) // 2
    succeed("produce", write_lines(directory / "gone", EVENTS[:1]), *options)
    # The later time of these ends the key above, so that the service has no cause for an event of its own.
    succeed("produce", write_lines(directory / "first", EVENTS[1:half]), *options)
    with ServiceProcess([*options, "--http", "127.0.0.1:0"]) as service:
        service.wait_for("started")
        wait_for_offset(service, half)
        assert f'"{half - 1}"\n' == succeed("query", *options, "GET", "counter")  # while the service runs
        succeed("produce", write_lines(directory / "rest", EVENTS[half:]), *options)
        wait_for_offset(service, len(EVENTS))
        assert 0 == service.terminate()
    return Lived(data, options)


def test_query_prints_as_redis_cli(lived: Lived) -> None:
    """Replies look as redis-cli prints them."""
    said = {
        ("GET", "counter"): '"20"\n',
        ("HGETALL", "user:1"): '1) "name"\n2) "Ann"\n3) "raw"\n4) "\\xff\\x00"\n',
        ("ZRANGE", "scores", "0", "-1", "WITHSCORES"): '1) "a"\n2) "1.5"\n3) "b"\n4) "2"\n',
        ("LRANGE", "list", "0", "-1"): '1) "x"\n2) "y"\n3) "z"\n',
        ("SCARD", "set"): "(integer) 1\n",
        ("GET", "absent"): "(nil)\n",
        ("GET", "t"): '"2"\n',
        ("GET", "once"): '"1"\n',
        ("TYPE", "list"): "list\n",
    }

    assert said == {command: succeed("query", *lived.options, *command) for command in said}
    assert '"7"\n' == succeed("query", *lived.options, "--db", 3, "GET", "elsewhere")


def test_query_prints_json(lived: Lived) -> None:
    """--json gives the reply as JSON, bytes that are no UTF-8 in base64."""
    assert [["name", "Ann"], ["raw", {"base64": "/wA="}]] == json.loads(
        succeed("query", *lived.options, "--json", "HGETALL", "user:1")
    )


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (("GET", "list"), "WRONGTYPE"),
        (("GET",), "wrong number of arguments"),
        (("NOSUCH", "a"), "unknown command"),
        (("SET", "a", "1"), "SET writes: send it as an event"),
    ],
)
def test_query_that_cannot_be_answered_fails(command: tuple[str, ...], text: str, lived: Lived) -> None:
    """An error is one line on stderr, or a JSON object on stdout, and exit code 1."""
    plain = run("query", *lived.options, *command)
    as_json = run("query", *lived.options, "--json", *command)

    assert (1, 1) == (plain.exit_code, as_json.exit_code)
    assert plain.stderr.startswith("slotlog: ")
    assert text in plain.stderr
    assert text in json.loads(as_json.stdout)["error"]


def test_replay_makes_the_same_state(lived: Lived, tmp_path: Path) -> None:
    """A replay reaches the same digest and, both being clean, the same RocksDB records, byte for byte."""
    (replayed,) = json.loads(succeed("replay", *lived.options, "--to", tmp_path / "to", "--json"))["partitions"]
    to = [*lived.options[2:], "--data", tmp_path / "to"]
    for options in (lived.options, to):
        succeed("clean", "--now", *options)  # the service may have ended before or after it had removed what expired

    assert (len(EVENTS), replayed["digest"]) == (replayed["next_offset"], replayed["live_digest"])
    assert succeed("digest", *lived.options) == succeed("digest", *to)
    assert succeed("dump", *lived.options, "--raw") == succeed("dump", *to, "--raw")
    assert succeed("dump", *lived.options) == succeed("dump", *to)


def test_dump_shows_every_key(lived: Lived) -> None:
    """A line a key, with its database, type and value; what has expired is not there."""
    keys = {line["key"]: line for line in map(json.loads, succeed("dump", *lived.options).splitlines())}

    assert {"counter", "user:1", "user:2", "scores", "list", "set", "t", "once", "elsewhere", "stream"} == keys.keys()
    assert {"db": 0, "key": "scores", "type": "zset", "expire_ms": None, "value": [["a", 1.5], ["b", 2.0]]} == keys[
        "scores"
    ]
    assert (3, "string", "7") == tuple(keys["elsewhere"][name] for name in ("db", "type", "value"))
    assert {"expire_ms": None, "value": [["token", "x"]], "field_expire_ms": [["token", 4102444800000]]} == {
        name: keys["user:2"][name] for name in ("expire_ms", "value", "field_expire_ms")
    }


def test_dump_shows_a_stream(lived: Lived) -> None:
    """A stream has its entries, and its groups with consumers and pending entries; ids are as Redis shows them."""
    (stream,) = (
        line for line in map(json.loads, succeed("dump", *lived.options).splitlines()) if "stream" == line["key"]
    )

    value = stream["value"]
    (group,) = value.pop("groups")
    (consumer,), (pending,) = group.pop("consumers"), group.pop("pending")
    counts = {"last_id": "1000-1", "max_deleted_id": "0-0", "entries_added": 1}
    assert {**counts, "entries": [["1000-1", ["name", "Ann"]]]} == value
    assert {"name": "crew", "last_id": "1000-1", "entries_read": 1} == group
    assert {"one"} == {consumer["name"], pending["consumer"]}
    assert {"id": "1000-1", "consumer": "one", "delivered_ms": consumer["active_ms"], "deliveries": 1} == pending


def test_raw_dump_is_in_key_order(lived: Lived) -> None:
    """--raw gives RocksDB's records in hex, sorted within each column family."""
    records = [json.loads(line) for line in succeed("dump", *lived.options, "--raw").splitlines()]
    families = list(dict.fromkeys(record["cf"] for record in records))

    assert [{"cf", "key", "value"}] * len(records) == [set(record) for record in records]
    assert {"system", "metadata", "data", "zset_score", "dedup"} <= set(families)
    assert "local" not in families
    for family in families:
        keys = [record["key"] for record in records if record["cf"] == family]
        assert sorted(keys) == keys


def test_replay_until_an_offset(lived: Lived, tmp_path: Path) -> None:
    """--until OFFSET stops before that offset; the live state is further, so nothing is compared."""
    words = ("replay", *lived.options, "--to", tmp_path / "to", "--until", 7, "--json")
    (replayed,) = json.loads(succeed(*words))["partitions"]

    assert (7, None) == (replayed["next_offset"], replayed["live_digest"])
    past = ("query", *lived.options[2:], "--data", tmp_path / "to", "--stale", "GET", "counter")
    assert '"6"\n' == succeed(*past)


def test_replay_says_equal(lived: Lived, tmp_path: Path) -> None:
    """For people: both digests under each other, and the word."""
    said = succeed("replay", *lived.options, "--to", tmp_path / "to").splitlines()

    assert (5, "  not applied: 1 rejected command, 1 duplicate") == (len(said), said[3])
    assert said[4].startswith("  the first rejected: offset ")
    assert said[2].endswith("  equal")
    assert said[1].split()[1] == said[2].split()[1]


def test_replay_needs_an_empty_directory(lived: Lived, tmp_path: Path) -> None:
    """A directory with anything in it is refused and left as it is."""
    (tmp_path / "thesis.tex").touch()
    result = run("replay", *lived.options, "--to", tmp_path)

    assert 1 == result.exit_code
    assert "is not empty" in result.stderr
    assert ["thesis.tex"] == [path.name for path in tmp_path.iterdir()]


def test_unfinished_replay_is_refused(lived: Lived, tmp_path: Path) -> None:
    """A directory whose replay was interrupted is no state: not for queries, digests, dumps or services."""
    to = tmp_path / "to"
    succeed("replay", *lived.options, "--to", to)
    store = store_opener(load_settings(), to, replaying=True)(0)
    store.write(replaying_changes(begins=True))
    store.flush_all()
    store.close()
    options = [*lived.options[2:], "--data", to]
    results = [
        run("query", *options, "GET", "counter"),
        run("digest", *options),
        run("dump", *options),
        run("skip", 0, 0, *options),
        run("serve", "--log", f"sqlite:///{lived.data / 'log.sqlite3'}", *options, "--http", ""),
    ]

    assert [1] * len(results) == [result.exit_code for result in results]
    assert [True] * len(results) == [
        "holds an unfinished replay or conversion: run the same" in result.stderr for result in results
    ]


def test_replay_without_a_log_leaves_nothing(lived: Lived, tmp_path: Path) -> None:
    """A log that is not there is an error, and no directory is made for it."""
    options = ["--log", f"sqlite:///{tmp_path / 'absent'}", "--data", lived.data, "--to", tmp_path / "to"]
    result = run("replay", *options)

    assert 1 == result.exit_code
    assert "there is no log" in result.stderr
    assert not (tmp_path / "to").exists()
    assert not (tmp_path / "absent").exists()


def test_absent_state_is_named(tmp_path: Path) -> None:
    """Reading where there is no state says what to run, and makes nothing."""
    data = tmp_path / "data"
    option = ("--data", data)
    results = [run(*words) for words in (("query", *option, "GET", "a"), ("digest", *option), ("dump", *option))]
    results.append(run("skip", 0, 0, *option))

    assert [1] * 4 == [result.exit_code for result in results]
    assert [True] * 4 == ["has no state of partition 0" in result.stderr for result in results]
    assert not data.exists()


def test_replay_until_a_time(tmp_path: Path) -> None:
    """--until TIME stops before the first record at that time."""
    data = tmp_path / "data"
    day_ms = 24 * 3600 * 1000
    start_ms = 1_357_016_400_000  # 2013-01-01T05:00:00Z
    events = [{"cmd": "INCR", "args": ["days"], "time": start_ms + day * day_ms} for day in range(10)]
    succeed("produce", write_lines(tmp_path / "events", events), "--data", data)
    reached: dict[str, str] = {}
    for until in ("2013-01-04T05:00:00Z", "2013-01-04T05:00:00.001Z", "2013-01-04T06:00:00+01:00", "2014-01-01"):
        to = tmp_path / f"to {len(reached)}"
        succeed("replay", "--data", data, "--to", to, "--until", until)
        reached[until] = succeed("query", "--data", to, "GET", "days")
    result = run("replay", "--data", data, "--to", tmp_path / "x", "--until", "yesterday")

    assert ['"3"\n', '"4"\n', '"3"\n', '"10"\n'] == list(reached.values())
    assert 1 == result.exit_code
    assert "neither an offset nor an ISO 8601 time" in result.stderr


def test_version_is_complete() -> None:
    """`version` says which rules and formats it stands on."""
    assert {"slotlog", "rules", "format", "python", "rocksdict", "aiokafka", "sqlite", "hot_path"} == json.loads(
        succeed("version", "--json")
    ).keys()


def test_version_says_what_applies_events(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It is what is compiled, or Python where the setting says so; a wrong setting does not hide the versions."""
    monkeypatch.chdir(tmp_path)
    before = native.chosen() is not None
    said = []
    for setting in ("true", "false", "perhaps"):
        monkeypatch.setenv("SLOTLOG_NATIVE", setting)
        said.append(json.loads(succeed("version", "--json"))["hot_path"])
    native.choose(native=before)

    assert ["compiled", "Python, as native is false", "Python, as native is false"] == said


def test_what_is_compiled_may_be_older_than_its_source(tmp_path: Path) -> None:
    """In a checkout that was changed, the time of a file tells it; what was installed has no source to compare with."""
    library, source = tmp_path / "_hot.so", tmp_path / "hot.h"
    library.touch()
    found = [is_older_than_source(library)]
    source.touch()
    for seconds in (-5, 5):
        built = library.stat().st_mtime
        os.utime(source, (built + seconds, built + seconds))
        found.append(is_older_than_source(library))

    assert [False, False, True] == found
