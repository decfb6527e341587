"""`slotlog space`: on a state whose sizes are known, with what waits to be cleaned, damaged, beside a service."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest

from engine.layouts.layout import Kind
from engine.model import SET, Metadata
from engine.store.memory import MemoryStore
from engine.store.rocks import RocksStore
from engine.store.store import SYSTEM_CF, Changes
from engine.tables.system import UNSWAPPED
from engine.values.encoding import pack_u64
from ops import progress
from ops.state.reports.space_keys import CANDIDATE_RECORDS_MAX, KeySizes, KeyWalk, SpaceOptions
from slotlog.shared.slots import slot
from tests.faults.service import ServiceProcess
from tests.layouts import column_families, layout_of
from tests.ops.verbs import run, succeed, wait_for_offset, write_lines

PARTITIONS: Final = 2
USERS: Final = 3000
VALUE: Final = "x" * 100
METADATA_KEY_BYTES: Final = 22
"""Of a metadata key, beside the name; a record of a subkey has 8 of its version more."""

EVENTS: Final = 8000


def replayed(directory: Path, events: list[dict[str, Any]], partitions: int = 1) -> Path:
    """A state of these events, all of it in table files: a replay flushes at its end."""
    options = ["--data", directory / "made", "--partitions", partitions]
    succeed("produce", write_lines(directory / "events", events), *options)
    succeed("replay", *options, "--to", directory / "data")
    return directory / "data"


def user(number: int) -> dict[str, Any]:
    """A hash of one field."""
    return {"cmd": "HSET", "args": [f"user:{number:05}", "name", VALUE]}


def measured(*words: object) -> dict[str, Any]:
    """What `--json` prints."""
    facts: dict[str, Any] = json.loads(succeed("space", *words, "--json"))
    return facts


def stored_bytes(data: Path) -> dict[str, int]:
    """Bytes of the record keys and values by column family, as `dump --raw` shows them, less what is not of keys."""
    lines = [json.loads(line) for line in succeed("dump", "--data", data, "--raw").splitlines()]
    sizes: dict[str, int] = {}
    for line in lines:
        sizes[line["cf"]] = sizes.get(line["cf"], 0) + (len(line["key"]) + len(line["value"])) // 2
    return sizes


def test_sizes_that_are_known(tmp_path: Path) -> None:
    """With every key in the sample, bytes by type, prefix and key are those of the stored records, to the byte."""
    events = [
        *map(user, range(20)),
        {"cmd": "SET", "args": ["s", VALUE]},
        {"cmd": "ZADD", "args": ["board/eu", 1, "a", 2, "bb"]},
        {"cmd": "RPUSH", "args": ["queue", *["element"] * 50]},
        {"cmd": "SETRANGE", "args": ["bits", 200_000, "x"], "db": 3},
        {"cmd": "SET", "args": ["dies", "1", "PX", 1000]},
        {"cmd": "XADD", "args": ["feed", "1000-1", "name", VALUE]},
        {"cmd": "XGROUP|CREATE", "args": ["feed", "crew", "0"]},
        {"cmd": "XREADGROUP", "args": ["GROUP", "crew", "ann", "STREAMS", "feed", ">"]},
    ]
    data = replayed(tmp_path, events)
    total = measured("--data", data)["total"]
    types, stored = total["types"], stored_bytes(data)
    of_user = (METADATA_KEY_BYTES + 10 + 25) + (METADATA_KEY_BYTES + 10 + 8 + 4 + 100)

    assert {"hash": 20, "list": 1, "stream": 1, "string": 3, "zset": 1} == {
        name: each["keys"] for name, each in types.items()
    }
    assert 20 * of_user == types["hash"]["bytes_estimate"]
    assert sum(stored[name] for name in ("metadata", "data", "zset_score", "stream", "stream_index", "expiry")) == sum(
        each["bytes_estimate"] for each in types.values()
    )
    assert {"prefix": "user:", "keys_estimate": 20, "bytes_estimate": 20 * of_user} in total["prefixes"]
    assert {"prefix", "keys_estimate", "bytes_estimate"} == total["prefixes"][0].keys()
    assert [None, "user:"] == sorted((each["prefix"] for each in total["prefixes"]), key=str)
    assert ["bits", "queue"] == [each["name"] for each in total["largest"] if each["type"] != "hash"][:2]
    assert ("string", 3, 200_001, True) == tuple(
        next(each for each in total["largest"] if each["name"] == "bits")[name]
        for name in ("type", "db", "elements", "is_exact")
    )
    assert {"keys": 26, "every": 1} == total["sample"]
    slash = measured("--data", data, "--delimiter", "/")["total"]["prefixes"]
    assert {None, "board/"} == {each["prefix"] for each in slash}


def test_room_on_disk(tmp_path: Path) -> None:
    """Bytes by column family are RocksDB's, in sum those of the table files; the write-ahead log stands apart."""
    data = replayed(tmp_path, list(map(user, range(USERS))))
    total = measured("--data", data)["total"]
    families = total["column_families"]
    tables = sum(path.stat().st_size for path in (data / "0").glob("*.sst"))

    assert tables == sum(family["bytes"] for family in families.values()) == total["bytes"] - total["wal_bytes"]
    assert {*column_families(), "system", "expiry", "graveyard", "dedup", "local"} == families.keys()
    assert families["data"]["live_bytes_estimate"] > 0
    assert (USERS, 0) == (families["metadata"]["records_estimate"], total["reclaimable_bytes_estimate"])


def test_what_waits_to_be_cleaned(tmp_path: Path) -> None:
    """Dead collections with their elements and age, keys that are due and since when, what that would give back."""
    start_ms = 1_700_000_000_000
    events = [
        {"cmd": "RPUSH", "args": ["live", *[VALUE] * 100], "time": start_ms},
        {"cmd": "RPUSH", "args": ["dead", *[VALUE] * 100], "time": start_ms},
        {"cmd": "SET", "args": ["due", "1", "PX", 1000], "time": start_ms},
        {"cmd": "HSETEX", "args": ["h", "PX", 3000, "FIELDS", 1, "f", "v"], "time": start_ms},
        {"cmd": "HSET", "args": ["h", "stays", "v"], "time": start_ms},
        {"cmd": "DEL", "args": ["dead"], "time": start_ms + 2000},
        {"cmd": "SETRANGE", "args": ["dead", 140_000, "x"], "time": start_ms + 3000},
        {"cmd": "DEL", "args": ["dead"], "time": start_ms + 4000},
        {"cmd": "TICK", "args": [], "time": start_ms + 9000},
    ]
    total = measured("--data", replayed(tmp_path, events))["total"]
    said = succeed("space", "--data", tmp_path / "data")

    assert {"collections": 2, "elements": 100 + 35, "age_ms": 7000} == total["graveyard"]
    assert {"keys": 2, "behind_ms": 8000} == total["expiry_backlog"]
    assert 0 < total["reclaimable_bytes_estimate"] < total["bytes"]
    assert "graveyard:   2 collections, 135 elements, the oldest dead for 7 s\n" in said
    assert "expiry:      2 keys due, for up to 8 s by the log's clock\n" in said


def test_a_sample_stands_for_all(tmp_path: Path) -> None:
    """Every n-th key in stored order is counted, the same ones each time; the largest do not distort the rest."""
    large = {"cmd": "SADD", "args": ["large:set", *range(20_000)]}
    data = replayed(tmp_path, [*map(user, range(USERS)), large])
    total = measured("--data", data, "--sample", 100, "--top", 1)["total"]
    exact = measured("--data", data, "--sample", USERS + 1)["total"]
    (prefix,) = total["prefixes"]
    (largest,) = total["largest"]

    assert {"keys": 97, "every": 31} == total["sample"]
    assert total == measured("--data", data, "--sample", 100, "--top", 1)["total"]
    assert exact["types"]["hash"] == total["types"]["hash"]  # as all of them have the same size
    assert ("large:set", 20_000, False) == tuple(largest[name] for name in ("name", "elements", "is_exact"))
    # Members have one to five digits, and the records that are counted are the first ones.
    counted = exact["types"]["set"]["bytes_estimate"]
    assert abs(largest["stored_bytes"] - counted) < counted / 50
    assert ("large:", 1) == (prefix["prefix"], prefix["keys_estimate"])
    tiny = measured("--data", data, "--sample", 1)["total"]["prefixes"]
    assert abs(sum(each["keys_estimate"] for each in tiny) - USERS - 1) <= 1
    users = measured("--data", data, "--sample", 100)["total"]["prefixes"][1]
    assert {
        "prefix": "user:",
        "keys_estimate": USERS,
        "bytes_estimate": exact["types"]["hash"]["bytes_estimate"],
    } == users


def test_records_of_a_large_key_are_counted_up_to_a_bound() -> None:
    """Behind the bound of records each is put at the mean of those before."""
    layout, size = layout_of(), CANDIDATE_RECORDS_MAX + 5000
    key = layout.metadata_key(0, slot(b"e"), b"e")
    store, changes = MemoryStore(column_families()), Changes()
    changes.of(layout.families[Kind.METADATA])[key] = layout.pack_metadata(Metadata(SET, 0, 1, size))
    prefix = layout.prefix(Kind.DATA, key, 1)
    changes.of(layout.families[Kind.DATA]).update((prefix + pack_u64(number), b"") for number in range(size))
    store.write(changes)
    keys: KeySizes = KeyWalk(store, layout, 1, UNSWAPPED, 0, SpaceOptions(1, 1, b":")).run(lambda _: None)
    (largest,) = keys.largest

    assert not largest.is_exact
    assert len(key) + 25 + size * (len(prefix) + 8) == largest.stored_bytes


def test_a_dead_stream_is_put_at_the_mean_of_its_own_records(tmp_path: Path) -> None:
    """What cleaning gives back of a stream goes by its column family, where records are larger than those of data."""
    events = [
        *({"cmd": "XADD", "args": [name, f"{number}-1", "f", VALUE * 5]} for name in "ab" for number in range(1, 500)),
        {"cmd": "SADD", "args": ["e", *map(str, range(2000))]},
        {"cmd": "DEL", "args": ["a"]},
    ]
    total = measured("--data", replayed(tmp_path, events))["total"]
    stream = total["column_families"]["stream"]

    assert total["reclaimable_bytes_estimate"] == stream["live_bytes_estimate"] * 499 // stream["records_estimate"]


def test_several_partitions(tmp_path: Path) -> None:
    """Each by itself and all of them as one; what is not there is named."""
    data = replayed(tmp_path, list(map(user, range(USERS))), PARTITIONS)
    facts = measured("--data", data)
    said = succeed("space", "--data", data).splitlines()
    one = run("space", "--data", data, "--own", 0, "--json")

    assert [0, 1] == [each["partition"] for each in facts["partitions"]]
    assert USERS == sum(each["next_offset"] for each in facts["partitions"])
    for name in ("keys", "bytes", "wal_bytes", "reclaimable_bytes_estimate"):
        assert facts["total"][name] == sum(each[name] for each in facts["partitions"])
    assert [2, 2] == [each["sample"]["every"] for each in facts["partitions"]]
    assert {"partition", "0", "1"} <= {line.split()[0] for line in said if line}
    assert [0] == [each["partition"] for each in json.loads(one.stdout)["partitions"]]
    assert max(map(len, said)) <= 80


def test_an_empty_state(tmp_path: Path) -> None:
    """A state without a key: nothing to list, and no error."""
    data = replayed(tmp_path, [{"cmd": "TICK", "args": []}])
    total = measured("--data", data)["total"]

    assert (0, {}, [], []) == tuple(total[name] for name in ("keys", "types", "prefixes", "largest"))
    assert succeed("space", "--data", data).endswith("before compression; of all 0 keys.\n")


@pytest.mark.damaging
def test_a_damaged_state(tmp_path: Path) -> None:
    """Exit code 1, the partition that cannot be read, and what looks further."""
    data = replayed(tmp_path, list(map(user, range(USERS))))
    largest = max((data / "0").glob("*.sst"), key=lambda path: path.stat().st_size)
    content = bytearray(largest.read_bytes())
    content[1000:1100] = bytes(100)
    largest.write_bytes(content)
    plain, as_json = run("space", "--data", data), run("space", "--data", data, "--json")

    assert (1, 1, "") == (plain.exit_code, as_json.exit_code, plain.stdout)
    assert plain.stderr.startswith("slotlog: partition 0 cannot be read to its end: ")
    assert "`slotlog check`" in plain.stderr
    assert "CorruptionError" == json.loads(as_json.stdout)["kind"]


@pytest.mark.damaging
@pytest.mark.parametrize("verb", ["space", "digest"])
def test_one_damaged_partition_of_several(verb: str, tmp_path: Path) -> None:
    """The others are read all the same, also those behind it; it is named at the end, and the exit code is 1."""
    data = replayed(tmp_path, list(map(user, range(USERS))), 3)
    whole = json.loads(succeed(verb, "--data", data, "--json"))
    largest = max((data / "1").glob("*.sst"), key=lambda path: path.stat().st_size)
    content = bytearray(largest.read_bytes())
    content[1000:1100] = bytes(100)
    largest.write_bytes(content)
    plain, as_json = run(verb, "--data", data), run(verb, "--data", data, "--json")
    facts = json.loads(as_json.stdout)
    (damaged,) = facts["damaged"]

    missing = f"there is no log at {data / 'log.sqlite3'}: name it with --data or --log"
    note = f"slotlog: how far the state is behind its log is not known: {missing}\n"
    assert (1, 1, note) == (plain.exit_code, as_json.exit_code, as_json.stderr)
    assert [each for each in whole["partitions"] if each["partition"] != 1] == facts["partitions"]
    assert ([], 1) == (whole["damaged"], damaged["partition"])
    assert damaged["error"].startswith("partition 1 cannot be read to its end: ")
    assert f"{note}slotlog: {damaged['error']}\n" == plain.stderr
    assert sum(each["keys"] for each in facts["partitions"]) == (facts if verb == "digest" else facts["total"])["keys"]
    assert verb == "space" or "not counted: partition 1, damaged" == plain.stdout.splitlines()[-1]


@pytest.mark.damaging
def test_a_state_without_a_position(tmp_path: Path) -> None:
    """A state that cannot say where it stands is a damaged one."""
    data = replayed(tmp_path, [user(1)])
    with closing(RocksStore(data / "0", column_families())) as store:
        changes = Changes()
        changes.of(SYSTEM_CF)[b"clock_ms"] = None
        store.write(changes)
    result = run("space", "--data", data)

    assert (1, "") == (result.exit_code, result.stdout)
    assert "the state has no clock_ms" in result.stderr


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("--topic", "bills"), 1, "its topic is slotlog, not bills"),
        (("--data", "nowhere"), 1, "nowhere has no state of partition 0"),
        (("--delimiter", ""), 2, "an empty one ends no prefix"),
        (("--sample", 0), 2, "should be greater than or equal to 1"),
    ],
)
def test_what_cannot_be_measured(words: tuple[object, ...], status: int, said: str, tmp_path: Path) -> None:
    """Another state or none is a failure, a number or text that makes no sense is wrong usage."""
    data = replayed(tmp_path, [user(1)])
    result = run("space", "--data", data, *words)

    assert (status, "") == (result.exit_code, result.stdout)
    assert said in " ".join(result.stderr.split())


def test_progress_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no terminal, log lines on stderr say which partition it is and how far."""
    data = replayed(tmp_path, list(map(user, range(USERS))), PARTITIONS)
    monkeypatch.setattr(progress, "_LINE_SECONDS", 0)
    lines = run("space", "--data", data).stderr.splitlines()
    told = [json.loads(line) for line in lines if line.startswith("{")]

    assert ["space of partition 0 (1 of 2)", "space of partition 1 (2 of 2)"] == sorted(
        {line["event"] for line in told}
    )
    assert (1000, "keys and graves") == (told[0]["done"], told[0]["unit"])
    assert told[0]["total"] > 1000


def test_beside_a_service_that_writes(tmp_path: Path) -> None:
    """While a service applies events, each look finds a whole state, and none that is behind the one before."""
    options = ["--data", str(tmp_path)]
    events = write_lines(tmp_path / "events", map(user, range(1, EVENTS)))
    reached: list[tuple[int, int]] = []
    with ServiceProcess([*options, "--http", "127.0.0.1:0"]) as service:
        service.wait_for("started")
        succeed("produce", write_lines(tmp_path / "first", [user(0)]), *options)
        wait_for_offset(service, 1)
        producer = subprocess.Popen([sys.executable, "-m", "ops.cli", "produce", str(events), *options])
        while producer.poll() is None:
            (facts,) = measured(*options)["partitions"]
            reached.append((facts["next_offset"], facts["keys"]))
        wait_for_offset(service, EVENTS)
        assert (0, 0) == (producer.returncode, service.terminate())

    assert sorted(reached) == reached
    assert [] == [each for each in reached if each[0] != each[1]]
    assert EVENTS == measured(*options)["total"]["keys"]
