"""A directory that an export wrote is, byte for byte, one of Kvrocks, and comes back as it was."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from engine.apply.machine import Machine
from engine.layouts.layout import Form
from engine.proof.digest import digest
from engine.proof.walk import LiveKey, live_keys
from engine.store.memory import MemoryStore
from ops.config import ConfigError
from ops.exporting.exporter import NotExported
from ops.exporting.kvrocks.exporter import FieldTimesMode, kvrocks_export
from tests.engine.harness import new_store, open_machine, send
from tests.layouts import layout_of
from tests.ops.exporting.kvrocks.parsed import check_files, parse, records, score
from tests.ops.importing.kvrocks.imported import NOW_MS, import_all
from tests.ops.importing.kvrocks.written import NAMESPACE

LATER_MS = NOW_MS + 3_600_000

LEAVE_OUT, DROP, KEEP = FieldTimesMode.LEAVE_OUT, FieldTimesMode.DROP, FieldTimesMode.KEEP


@pytest.fixture
def state() -> tuple[MemoryStore, Machine]:
    """An empty state in memory."""
    store = new_store()
    return store, open_machine(store)


def export(
    state: tuple[MemoryStore, Machine], to: Path, *, layout: str = "kvrocks", field_times: FieldTimesMode = LEAVE_OUT
) -> list[NotExported]:
    """Write the live keys of a state to a directory for Kvrocks. Returns what it was told is missing."""
    store, machine = state
    told: list[NotExported] = []
    keys = live_keys(store, layout_of(), machine.clock_ms)
    kvrocks_export(layout, field_times)(to, keys, machine.kept[1].codes, machine.clock_ms, told.append)
    return told


def fill(machine: Machine) -> None:
    """A key of each type, with odd names and contents."""
    commands: list[list[bytes]] = [
        [b"SET", b"s", b"\x00\xff", b"PXAT", b"%d" % LATER_MS],
        [b"SET", b"", b""],
        [b"SET", b"long", b"x" * 100_000],
        [b"HSET", b"h", b"", b"", b"f", b"v"],
        [b"RPUSH", b"l", b"b", b"a", b"b"],
        [b"LPUSH", b"l", b"first"],
        [b"SADD", b"m", b"x", b"\x00"],
        [b"XADD", b"st", b"5-1", b"f", b"v", b"", b"x" * 200],
        [b"XADD", b"st", b"5-2", b"f", b"w"],
        [b"XADD", b"st", b"6-0", b"f", b"w"],
        [b"XDEL", b"st", b"5-2"],
        [b"XGROUP|CREATE", b"st", b"g", b"0"],
        [b"XGROUP|CREATECONSUMER", b"st", b"g", b"idle"],
        [b"XREADGROUP", b"GROUP", b"g", b"c", b"COUNT", b"1", b"STREAMS", b"st", b">"],
        [b"XADD", b"empty st", b"5-1", b"f", b"v"],
        [b"XTRIM", b"empty st", b"MAXLEN", b"0"],
        [b"ZADD", b"z", b"1", b"one", b"-inf", b"least", b"-0.0", b"zero", b"2.5", b""],
        [b"PEXPIREAT", b"z", b"%d" % (LATER_MS + 1)],
        [b"SETBIT", b"b", b"9", b"1"],
        [b"SET", b"k" * 65_536, b"v"],
    ]
    send(machine, [[name, *words] for name, *words in commands], at_ms=NOW_MS)


def id_of(ms: int, seq: int) -> bytes:
    """The id of a stream's entry."""
    return ms.to_bytes(8) + seq.to_bytes(8)


def named(*names: bytes) -> bytes:
    """Names with their lengths."""
    return b"".join(len(name).to_bytes(8) + name for name in names)


def numbers(*each: int) -> bytes:
    """Numbers of 8 bytes."""
    return b"".join(number.to_bytes(8, signed=True) for number in each)


STREAM: Final = {
    id_of(5, 1): b"\x01f\x01v\x00\xc8\x01" + b"x" * 200,
    id_of(6, 0): b"\x01f\x01w",
    b"\xff" * 8 + b"\x01" + named(b"g"): numbers(2, 1) + id_of(5, 1) + numbers(-1, 0),
    b"\xff" * 8 + b"\x02" + named(b"g", b"idle"): numbers(0, NOW_MS, -1),
    b"\xff" * 8 + b"\x02" + named(b"g", b"c"): numbers(1, NOW_MS, NOW_MS),
    b"\xff" * 8 + b"\x03" + named(b"g") + id_of(5, 1): numbers(NOW_MS, 1) + named(b"c"),
}
"""The records of the stream that `fill` makes, with its group."""


def test_every_type_is_written_as_kvrocks_has_it(state: tuple[MemoryStore, Machine], tmp_path: Path) -> None:
    """A second reader finds each key with its content and its time, and no record beside them."""
    fill(state[1])

    assert [] == export(state, tmp_path / "to")
    check_files(tmp_path / "to" / "db")
    assert {
        b"s": (1, LATER_MS, b"\x00\xff"),
        b"": (1, 0, b""),
        b"long": (1, 0, b"x" * 100_000),
        b"h": (2, 0, {b"": b"", b"f": b"v"}),
        b"l": (3, 0, [b"first", b"b", b"a", b"b"]),
        b"m": (4, 0, {b"x": b"", b"\x00": b""}),
        b"z": (
            5,
            LATER_MS + 1,
            {b"one": score(1.0), b"least": score(float("-inf")), b"zero": score(0.0), b"": score(2.5)},
        ),
        b"b": (1, 0, b"\x00\x40"),
        b"k" * 65_536: (1, 0, b"v"),
        b"st": (8, 0, ((id_of(6, 0).hex(), id_of(5, 2).hex()), 3, 1, STREAM)),
        b"empty st": (8, 0, ((id_of(5, 1).hex(), id_of(0, 0).hex()), 1, 0, {})),
    } == {name: tuple(key) for (_, name), key in parse(tmp_path / "to" / "db").items()}


@pytest.mark.parametrize("layout", ["kvrocks", "kvrocks-cluster"])
def test_there_and_back_again(state: tuple[MemoryStore, Machine], tmp_path: Path, layout: str) -> None:
    """What was exported and imported has the digest that it had, with slots and without."""
    store, machine = state
    fill(machine)
    export(state, tmp_path, layout=layout)
    back = import_all(tmp_path)

    assert digest(store, layout_of(), NOW_MS) == digest(back.store, layout_of(), NOW_MS)
    assert (11, []) == (len(back.keys), back.left_out)


def test_keys_name_their_slots(state: tuple[MemoryStore, Machine], tmp_path: Path) -> None:
    """For a Kvrocks with `cluster-enabled yes` every record has the slot of its key, by a second implementation."""
    fill(state[1])
    export(state, tmp_path, layout="kvrocks-cluster")

    assert 11 == len(parse(tmp_path / "db", cluster=True))


def test_hyperloglogs_get_kvrocks_form(state: tuple[MemoryStore, Machine], tmp_path: Path) -> None:
    """A sparse one and a dense one become registers in fragments; what only begins like one stays a string."""
    _, machine = state
    many = b" ".join(b"%d" % at for at in range(3000)).decode()
    send(machine, "PFADD sparse a", f"PFADD dense {many}", "SET like HYLLxxxxxxxxxxxx", at_ms=NOW_MS)
    counts = send(machine, "PFCOUNT sparse", "PFCOUNT dense", at_ms=NOW_MS)
    export(state, tmp_path)
    written = parse(tmp_path / "db")
    back = import_all(tmp_path)

    assert {(NAMESPACE, b"sparse"): 11, (NAMESPACE, b"dense"): 11, (NAMESPACE, b"like"): 1} == {
        owner: key.type for owner, key in written.items()
    }
    assert 2 == int.from_bytes(written[NAMESPACE, b"sparse"].value, "little") >> 6 * 12_711 & 63
    assert counts == send(back.machine, "PFCOUNT sparse", "PFCOUNT dense")


def test_databases_are_namespaces(state: tuple[MemoryStore, Machine], tmp_path: Path) -> None:
    """Database 3 is the namespace `db3`, and comes back as database 3."""
    _, machine = state
    send(machine, "SET k 0", at_ms=NOW_MS)
    send(machine, "SET k 3", at_ms=NOW_MS, db=3)
    told = export(state, tmp_path)

    assert ([], {(NAMESPACE, b"k"), (b"db3", b"k")}) == (told, set(parse(tmp_path / "db")))
    assert {(0, b"k"), (3, b"k")} == set(import_all(tmp_path).state)


def test_a_cluster_has_database_0_alone(state: tuple[MemoryStore, Machine], tmp_path: Path) -> None:
    """With `cluster-enabled yes` there are no namespaces: keys of other databases are told, and not written."""
    _, machine = state
    send(machine, "SET k 0", at_ms=NOW_MS)
    send(machine, "SET k 3", at_ms=NOW_MS, db=3)
    told = export(state, tmp_path, layout="kvrocks-cluster")

    assert [(3, b"k", "all (other databases)")] == [each[:3] for each in told]
    assert {(NAMESPACE, b"k")} == set(parse(tmp_path / "db", cluster=True))


@pytest.fixture
def timed(state: tuple[MemoryStore, Machine]) -> tuple[MemoryStore, Machine]:
    """A state with a hash two of whose fields have times, one of which is over."""
    at_ms = NOW_MS - 10
    send(state[1], "HSET h a 1 b 2 c 3", f"HPEXPIREAT h {LATER_MS} FIELDS 1 b", at_ms=at_ms)
    send(state[1], f"HPEXPIREAT h {NOW_MS} FIELDS 1 c", "SET k v", at_ms=at_ms)
    send(state[1], "SET later v", at_ms=NOW_MS)
    return state


@pytest.mark.form(Form.FIELD_TIMES)
def test_hashes_with_times_of_fields_are_told(timed: tuple[MemoryStore, Machine], tmp_path: Path) -> None:
    """Kvrocks 2.10 cannot have them: the key is named and left out, unless the user lets go of the times."""
    left_out = export(timed, tmp_path / "left-out")
    dropped = export(timed, tmp_path / "dropped", field_times=DROP)

    assert [[(0, b"h", "all (times of fields)")], [(0, b"h", "times of fields")]] == [
        [each[:3] for each in told] for told in (left_out, dropped)
    ]
    assert {b"k", b"later"} == {name for _, name in parse(tmp_path / "left-out" / "db")}
    assert {b"a": b"1", b"b": b"2"} == parse(tmp_path / "dropped" / "db")[NAMESPACE, b"h"].value


@pytest.mark.form(Form.FIELD_TIMES)
def test_times_of_fields_in_the_newer_form(timed: tuple[MemoryStore, Machine], tmp_path: Path) -> None:
    """For a Kvrocks that has them, times of fields are written in its form, and come back."""
    store, _ = timed
    told = export(timed, tmp_path, field_times=KEEP)

    assert [] == told
    assert {b"a": (0, b"1"), b"b": (LATER_MS, b"2")} == parse(tmp_path / "db")[NAMESPACE, b"h"].value
    assert digest(store, layout_of(), NOW_MS) == digest(import_all(tmp_path).store, layout_of(), NOW_MS)


@pytest.mark.form(Form.STREAMS)
def test_a_stream_that_kvrocks_would_misread_is_told(state: tuple[MemoryStore, Machine], tmp_path: Path) -> None:
    """Kvrocks keeps groups under ids of the highest millisecond: a stream that has come there is left out."""
    highest = 2**64 - 1
    send(state[1], f"XADD bad {highest}-1 f v", f"XADD good {highest - 1}-1 f v", at_ms=NOW_MS)
    told = export(state, tmp_path)

    assert [(0, b"bad", "all (ids of streams)", True)] == [(*each[:3], each.is_whole_key) for each in told]
    assert {b"good"} == {name for _, name in parse(tmp_path / "db")}


def test_a_used_directory_is_refused(state: tuple[MemoryStore, Machine], tmp_path: Path) -> None:
    """A directory with anything in it, or a file, is left as it is; the error says what is needed."""
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "file").write_text("mine")

    with pytest.raises(ConfigError, match="is not empty; an export for Kvrocks needs a directory of its own"):
        export(state, tmp_path / "used")
    with pytest.raises(ConfigError, match="is a file"):
        export(state, tmp_path / "used" / "file")
    assert ["file"] == [path.name for path in (tmp_path / "used").iterdir()]


def test_an_empty_directory_is_filled(state: tuple[MemoryStore, Machine], tmp_path: Path) -> None:
    """A directory that is there and empty, such as a mounted volume, is taken; an empty state is a whole export."""
    to = tmp_path / "volume"
    to.mkdir()
    export(state, to)

    assert (["db"], {}) == ([path.name for path in to.iterdir()], parse(to / "db"))


@pytest.mark.parametrize("there", [False, True])
def test_after_an_error_nothing_is_left(tmp_path: Path, *, there: bool) -> None:
    """When the keys end at an error, what was written is removed, and a directory that was made with it."""
    to = tmp_path / "to"
    if there:
        to.mkdir()

    def keys() -> Iterator[LiveKey]:
        yield LiveKey(0, b"k", 1, 0, iter([b"v"]))
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        kvrocks_export("kvrocks", LEAVE_OUT)(to, keys(), {}, NOW_MS, lambda _: None)
    assert (["to"] if there else [], []) == (
        [path.name for path in tmp_path.iterdir()],
        [path.name for path in to.iterdir()] if there else [],
    )


KILLED = """
import os, signal, sys
from pathlib import Path
from engine.proof.walk import LiveKey
from ops.exporting.kvrocks.exporter import FieldTimesMode, kvrocks_export

def keys():
    for at in range(20_000):
        yield LiveKey(0, b"%d" % at, 1, 0, iter([b"v" * 100]))
    os.kill(os.getpid(), signal.SIGKILL)

kvrocks_export("kvrocks", FieldTimesMode.LEAVE_OUT)(Path(sys.argv[1]), keys(), {}, 1, print)
"""


def test_a_killed_export_is_not_taken_for_a_whole_one(state: tuple[MemoryStore, Machine], tmp_path: Path) -> None:
    """After a kill there is no `db`: neither Kvrocks nor an import sees a part, and a second export says what to do."""
    done = subprocess.run([sys.executable, "-c", KILLED, tmp_path], check=False)

    assert (-signal.SIGKILL, ["db.unfinished"]) == (done.returncode, [path.name for path in tmp_path.iterdir()])
    with pytest.raises(ConfigError, match="broken off; remove it"):
        export(state, tmp_path)
    with pytest.raises(ConfigError, match="no directory of Kvrocks"):
        import_all(tmp_path)


def test_a_state_gives_the_same_records_each_time(state: tuple[MemoryStore, Machine], tmp_path: Path) -> None:
    """Versions come from the state's clock, not from the machine's."""
    fill(state[1])
    export(state, tmp_path / "a")
    export(state, tmp_path / "b")

    assert records(tmp_path / "a" / "db") == records(tmp_path / "b" / "db")
