"""`slotlog import --layout neokv1`: the strings of a directory that Phase 1 wrote come into the log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ops.config import ConfigError
from ops.importing.phase1.source import Phase1Source
from ops.importing.source import ImportKey, LeftOut, Options
from tests.ops.importing.phase1.written import record, write_directory
from tests.ops.verbs import run, succeed, write_lines

NOW_MS = 1_500_000_000_000
VECTORS: list[dict[str, Any]] = json.loads((Path(__file__).parents[3] / "vectors" / "encodings.json").read_text())[
    "neokv1"
]
OTHERS = ["hash", "list", "set", "zset"]
LATER_MS = 4_000_000_000_000


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Strings of two regions and two databases, one of which has expired."""
    records = [
        *(record(b"key:%d" % number, b"value %d" % number, region=number % 2) for number in range(20)),
        record(b"", b"", db=3),
        record(b"later\x00S", b"x" * 70_000, expire_ms=LATER_MS),
        record(b"gone", b"1", expire_ms=1_000),
    ]
    return write_directory(tmp_path / "phase1", {"data": dict(records)})


def source(path: Path, **options: Any) -> Phase1Source:
    """The source, with the options of an import."""
    defaults: dict[str, Any] = {"progress": None, "databases": frozenset(), "partitions": 1, "once": True}
    return Phase1Source(path, Options(**{**defaults, "layout": "neokv1", **options}), at_ms=NOW_MS)


def read(opened: Phase1Source, mark: str | None = None) -> list[ImportKey | LeftOut]:
    """All that it gives."""
    try:
        return list(opened.keys(mark))
    finally:
        opened.close()


def test_a_directory_into_the_log(directory: Path, tmp_path: Path) -> None:
    """Every string is in the log with its time to live, a replay has them, and the directory is as it was."""
    before = sorted((path.name, path.stat().st_mtime_ns) for path in directory.iterdir())
    data = tmp_path / "data"
    words = ("import", directory, "--layout", "neokv1", "--data", data, "--json")
    first, second = (json.loads(succeed(*words)) for _ in range(2))
    succeed("replay", "--data", data, "--to", tmp_path / "built")

    assert [(22, 0), (0, 22)] == [(facts["keys"], facts["earlier_keys"]) for facts in (first, second)]
    assert (["2 regions: 0, 1", "1 key had expired"], {}) == (first["notes"], first["left_out"])
    (tmp_path / "built" / "0").rename(data / "0")
    assert '"value 7"\n' == succeed("query", "--data", data, "GET", "key:7")
    assert '""\n' == succeed("query", "--data", data, "--db", 3, "GET", "")
    assert f"(integer) {LATER_MS}\n" == succeed("query", "--data", data, "PEXPIRETIME", "later\0S")
    assert before == sorted((path.name, path.stat().st_mtime_ns) for path in directory.iterdir())


def test_the_checked_examples_are_read(tmp_path: Path) -> None:
    """All of them that are alive, in any region; their other tags are listed."""
    strings = {bytes.fromhex(vector["keys"]["string"]): bytes.fromhex(vector["value"]) for vector in VECTORS}
    others = {bytes.fromhex(vector["keys"][name]): b"" for vector in VECTORS for name in OTHERS}
    path = write_directory(tmp_path / "phase1", {"data": strings | others})
    expected = {
        (vector["index_id"], vector["key"]): (vector["payload"], vector["expire_ms"])
        for vector in VECTORS
        if not 0 < vector["expire_ms"] <= NOW_MS
    }
    found, left_out = {}, []
    for each in read(source(path)):
        if isinstance(each, LeftOut):
            left_out.append(each.what)
        else:
            ((command, args),) = each.events
            assert b"SET" == command
            found[each.db, args[0].hex()] = (args[1].hex(), int(args[3]) if args[2:] else 0)

    assert expected == found
    assert sorted(OTHERS * len(VECTORS)) == sorted(left_out)


def test_a_second_run_begins_behind_the_mark(directory: Path) -> None:
    """The mark of each key leads to the next one."""
    whole = [each for each in read(source(directory)) if isinstance(each, ImportKey)]

    for at, key in enumerate(whole):
        rest = [each for each in read(source(directory), key.mark) if isinstance(each, ImportKey)]
        assert [each.name for each in whole[at + 1 :]] == [each.name for each in rest]


@pytest.mark.parametrize(
    ("key", "value", "options", "what"),
    [
        (*record(b"k", b"v", db=16), {}, "key of another database"),
        (*record(b"k", b"v", db=1), {"partitions": 2}, "key of another database"),
        (record(b"k", b"")[0], b"short", {}, "damaged record"),
        (b"no key", b"", {}, "damaged record"),
        (record(b"k", b"")[0] + b"S", bytes(8), {}, "damaged record"),
        (record(b"k", b"")[0].replace(b"kS", b"oS"), bytes(8), {}, "key in a wrong slot"),
        (*record(b"k" * 8_400_000, b"v"), {}, "large string"),
    ],
)
def test_what_has_no_place_is_listed(
    key: bytes, value: bytes, options: dict[str, Any], what: str, tmp_path: Path
) -> None:
    """With its reason; the strings beside it come over."""
    path = write_directory(tmp_path / "phase1", {"data": {key: value, **dict([record(b"sound", b"v")])}})
    found = read(source(path, **options))

    assert [what] == [each.what for each in found if isinstance(each, LeftOut)]
    assert [b"sound"] == [each.name for each in found if isinstance(each, ImportKey)]


def test_only_some_databases(directory: Path) -> None:
    """--db chooses, also where keys of others would be listed: a log of several partitions has no room for those."""
    found = read(source(directory, databases=frozenset({0}), partitions=2))

    assert [b""] == [each.name for each in read(source(directory, databases=frozenset({3})))]
    assert (21, []) == (len(found), [each for each in found if isinstance(each, LeftOut)])


def test_other_directories_are_refused(tmp_path: Path) -> None:
    """Each with what it is: no database, another program's, one of Phase 2, a state of slotlog."""
    (tmp_path / "empty").mkdir()
    key, value = record(b"k", b"v")
    phase2 = {"data": {}, "metadata": {key[:-1]: b"\x81" + value}}
    directories = {
        "is no RocksDB database": tmp_path / "empty",
        "has no column family data, but default, theirs": write_directory(tmp_path / "theirs", {"theirs": {}}),
        "has records of Phase 2": write_directory(tmp_path / "two", phase2),
        "is a state of slotlog": write_directory(tmp_path / "ours", {"data": {}, "system": {}}),
    }
    for expected, path in directories.items():
        with pytest.raises(ConfigError, match=expected):
            source(path)


def test_a_service_says_how_to_bring_it_in(directory: Path, tmp_path: Path) -> None:
    """In the place of a state the directory is refused and left as it is, and the verb for it is named."""
    succeed("produce", write_lines(tmp_path / "events", [{"cmd": "TICK", "args": []}]), "--data", tmp_path / "data")
    directory.rename(tmp_path / "data" / "0")
    result = run("serve", "--data", tmp_path / "data", "--http", "", "--resp", "")

    assert 1 == result.exit_code
    assert "no state of slotlog: it has the column families data;" in result.stderr
    assert f"`slotlog import --layout neokv1 {tmp_path / 'data' / '0'}`" in result.stderr
    assert 22 == len([each for each in read(source(tmp_path / "data" / "0")) if isinstance(each, ImportKey)])
