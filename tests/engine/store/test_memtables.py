"""Memtables: how large they are, how they become files, and their filters."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from engine.store.options import SharedMemory
from engine.store.rocks import RocksStore
from engine.store.store import Changes
from tests.engine.harness import family
from tests.engine.store.families import FAMILIES
from tests.engine.store.test_rocks import RECORDS, write


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the store of a test lies."""
    return tmp_path / "store"


@pytest.mark.parametrize(
    ("stores", "scattered", "usual"),
    [
        (1, (2 << 20, 4, 16), (8 << 20, 4, 9)),
        (2, (2 << 20, 4, 16), (8 << 20, 4, 9)),
        (3, (8 << 20, 1, 4), (32 << 20, 1, 3)),
    ],
)
def test_memtables_are_small_where_there_is_room(
    path: Path, stores: int, scattered: tuple[int, ...], usual: tuple[int, ...]
) -> None:
    """RocksDB has taken what the options say: size, how many become one file, and how many there may be."""
    memory = SharedMemory(stores=stores)
    RocksStore(path, ("data", "zset_score", "zset_rank"), memory, scattered=("zset_score", "zset_rank")).close()
    options = max(path.glob("OPTIONS-*")).read_text()
    found = {}
    for section in options.split("[CFOptions ")[1:]:
        words = dict(re.findall(r"^  (\w+)=(\d+)$", section, re.MULTILINE))
        found[section.split('"')[1]] = tuple(
            int(words[word])
            for word in ("write_buffer_size", "min_write_buffer_number_to_merge", "max_write_buffer_number")
        )

    assert {"zset_score": scattered, "zset_rank": scattered, "data": usual} == {
        name: found.pop(name) for name in ("zset_score", "zset_rank", "data")
    }
    assert ((2 << 20, 1, 2), (8 << 20, 1, 4)) == (found.pop("graveyard"), found.pop("expiry"))
    assert {usual} == set(found.values())


def test_full_memtables_become_one_file(path: Path) -> None:
    """Four of them: before that nothing is written, and what stands in any of them is read."""
    store, value = RocksStore(path, FAMILIES), b"v" * 65_536
    for n in range(450):  # 28 MiB
        write(store, {b"%05d" % n: value, b"newest": b"%d" % n}, "data")
    assert (0, b"449") == (store.disk_bytes()["data"], store.getter("data")(b"newest"))
    for n in range(450, 600):
        write(store, {b"%05d" % n: value, b"newest": b"%d" % n}, "data")
    store.flush_all()

    assert (b"599", value) == (store.getter("data")(b"newest"), store.getter("data")(b"00000"))
    assert (601, 2) == (len(family(store, "data")), len(store._families["data"].live_files()))
    store.close()


@pytest.mark.parametrize(
    "step", ["flush_all()", "checkpoint(sys.argv[1] + '-copy')", "compact('data', b'', b'x')", "close()"]
)
def test_a_flush_beside_one_of_rocksdbs_own_ends(path: Path, step: str) -> None:
    """RocksDB has begun one, and not yet taken its memtables, whenever the store asks for one."""
    program = f"""
import sys
from pathlib import Path
from engine.store.rocks import RocksStore
from tests.engine.harness import family
from tests.engine.store.families import FAMILIES
from tests.engine.store.test_rocks import RECORDS, write
for n in range(8):
    store = RocksStore(Path(sys.argv[1] + str(n)), FAMILIES)
    for at in range(530 + 10 * n):
        write(store, {{b"%05d" % at: b"v" * 65_536}}, "data")
    store.{step.replace("-copy'", "-copy' + str(n)")}
    if not store._closed:
        store.close()
"""
    subprocess.run([sys.executable, "-c", program, str(path)], check=True, timeout=30)


def filters(path: Path) -> dict[str, float]:
    """Which part of a memtable its filter is, by column family, where there is one."""
    options = max(path.glob("OPTIONS-*")).read_text()
    parts = re.findall(r'\[CFOptions "(\w+)"\].*?memtable_prefix_bloom_size_ratio=([\d.]+)\n', options, re.DOTALL)
    return {name: float(part) for name, part in parts if float(part)}


def test_memtables_that_are_looked_up_have_filters(tmp_path: Path) -> None:
    """Metadata and ids have them, stores share what one would take, and very many have none."""
    found = {}
    for stores in (1, 4, 100):
        path = tmp_path / str(stores)
        RocksStore(path, FAMILIES, SharedMemory(stores=stores), looked_up=("metadata",)).close()
        found[stores] = filters(path)

    assert {1: pytest.approx(1 / 128, rel=1e-3), 4: pytest.approx(1 / 2048, rel=1e-3)} == {
        stores: parts.get("metadata") for stores, parts in found.items() if parts
    }
    assert all(set(parts) <= {"metadata", "dedup"} and len(parts) != 1 for parts in found.values())


def test_a_filter_hides_nothing(path: Path) -> None:
    """What was put, replaced and deleted, one by one and as a range, is read as it was written last."""
    store = RocksStore(path, FAMILIES, looked_up=("data",))
    get = store.getter("data")
    write(store, {**RECORDS})
    changes = Changes()
    changes.ranges.append(("data", b"00003", b"00005"))
    changes.of("data").update({b"00001": b"new", b"00002": None})
    store.write(changes)

    assert [b"new", None, None, None, RECORDS[b"00005"]] == [get(b"%05d" % n) for n in range(1, 6)]
    assert get(b"absent") is None
    store.close()
