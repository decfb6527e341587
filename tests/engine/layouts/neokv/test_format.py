"""The pages of bytes on disk, run: every example is what the engine writes, and it writes nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import engine
from engine.apply.machine import Record
from engine.batch import staging
from engine.batch.ranks import rank_counts
from engine.cleaning import reclaim
from engine.cleaning.reclaim import Reclaimer
from engine.cleaning.sweep import Sweeper
from engine.errors import CommandError
from engine.layouts.neokv import NeoKV
from engine.layouts.neokv.layout import NeoKVOverPhase1
from engine.layouts.records import metadata_records
from engine.model import STRING, TYPE_NAMES, Metadata
from engine.store.memory import MemoryStore
from engine.store.store import LOCAL_CF, SHARED_CFS, SYSTEM_CF, Changes
from engine.tables.adoption import settle
from engine.tables.system import PAIR, SET_BACK, replaying_changes, retime_changes, skip_changes
from engine.types.stream import stream_index
from engine.values.replies import NIL_ARRAY, OK, Map, Named, Pairs, Reply, Set, pack, unpack
from slotlog.shared.slots import slot
from tests.engine.harness import FAMILIES, NOW_MS, apply, event, family, new_store, open_machine, records_of, shape
from tests.layouts import home_of

ENGINE = Path(engine.__file__).parent
PAGE = (ENGINE / "FORMAT.md").read_text() + (ENGINE / "layouts" / "neokv" / "FORMAT.md").read_text()
"""What all layouts share, and what is of this one."""
STATUSES = {"standard", "reserved", "retired"}
REPLIES: dict[str, Reply] = {
    "_": None,
    "N": NIL_ARRAY,
    ":": -7,
    "$": b"hi",
    "+": OK,
    "-": CommandError("ERR no"),
    ",": 1.5,
    "*": [1, None],
    "~": Set([b"a"]),
    "%": Map([(b"a", b"b")]),
    "&": Named([(b"s", [])]),
    ">": Pairs([(b"a", 0.0)]),
}
"""The replies that the page's table packs, by tag."""


def sections() -> Iterator[tuple[str, list[dict[str, str]]]]:
    """Each section's title without backticks, and the rows of its table by column name."""
    for section in re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]:
        title, _, body = section.partition("\n")
        table = [[cell.strip() for cell in line.split("|")[1:-1]] for line in body.splitlines() if line.startswith("|")]
        yield title.strip("`"), [dict(zip(table[0], row, strict=True)) for row in table[2:]]


def unhex(cell: str) -> bytes:
    """The bytes of an example."""
    return bytes.fromhex(cell.strip("`"))


def shown_records(*, retired: bool = False) -> list[tuple[str, bytes, bytes]]:
    """All example records of the page that are written, or those that once were, in the order of a raw dump."""
    return sorted(
        (title, unhex(row["key"]), unhex(row["value"]))
        for title, rows in sections()
        for row in rows
        if "key" in row and (row["status"] == "retired") == retired
    )


def stream() -> list[Record]:
    """The events at the end of the shared page."""
    (block,) = re.findall(r"^```events\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
    records: list[Record] = []
    for line in block.splitlines():
        offset, at_ms, db, event_id, session, name, *words = line.encode().split(b" ")
        args = [word.replace(rb"\t", b"\t").replace(rb"\n", b"\n") for word in words]
        marks = (None if mark == b"-" else mark for mark in (event_id, session))
        records.append((int(offset), int(at_ms), name, args, int(db), *marks))
    return records


def example_store() -> MemoryStore:
    """The state that the stream leaves."""
    store = new_store()
    machine = open_machine(store)
    applied = machine.apply(stream(), 0)
    assert ([], 0) == (applied.dead_letters, applied.rejected)
    machine.commit(b"\xc0\xff\xee")
    store.write(skip_changes(42))
    store.write(skip_changes(50, 60))
    store.write(retime_changes(43, 45, NOW_MS))
    changes = Changes()  # as SETCLOCK writes it, which would end the watches of the example
    changes.of(SYSTEM_CF)[SET_BACK + b"0"] = PAIR.pack(NOW_MS + 315_360_000_000, NOW_MS - 1)
    store.write(changes)
    return store


def cleaned_marks() -> dict[bytes, bytes]:
    """The cursors of a sweep and of a reclaim, days later, and the note of a range delete."""
    store = new_store()
    machine = open_machine(store)
    once = event(0, "SET token x PX 60000", event_id=b"once")
    apply(machine, once, event(1, "SADD tags red"), event(2, "DEL tags"))
    for days in (2, 3, 4, 5):
        apply(machine, event(machine.next_offset, "TICK", at_ms=NOW_MS + days * 86_400_000, event_id=b"%d" % days))
    machine.commit(b"mark")
    sweeper = Sweeper(machine, store)
    sweeper.expire(1)
    sweeper.forget()
    Reclaimer(machine, store).reclaim(1)
    return family(store, LOCAL_CF)


def test_every_example_is_what_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """The records of the page are exactly those that its stream leaves: none differs, is missing or is hidden."""
    # Rank counts from three members on, so that the example is small.
    monkeypatch.setattr(rank_counts, "PLAIN_SIZE_MAX", 2)
    monkeypatch.setattr(rank_counts, "BLOCK_MAX", 2)
    monkeypatch.setattr(stream_index, "BLOCK_ENTRIES", 1)

    assert shown_records() == records_of(example_store())


def test_every_row_has_a_status() -> None:
    """Each row of each table says whether it is standard, reserved or retired."""
    rows = [row for _, table in sections() for row in table]

    assert STATUSES == {row["status"] for row in rows}


def test_what_is_retired_is_read() -> None:
    """A record of a form that is never written again is a string with its time to live, in a state that has such."""
    store = new_store()
    changes = Changes()
    for name, key, value in shown_records(retired=True):
        changes.of(name)[key] = value
    store.write(changes)

    found = list(metadata_records(store, NeoKVOverPhase1(0)))
    expected = Metadata(STRING, 1_700_000_060_000, value=b"hello")
    assert [(NeoKV(0).metadata_key(0, slot(b"old"), b"old"), NeoKV.pack_metadata(expected))] == found


def test_every_column_family_is_registered() -> None:
    """The register has the layout's column families, the shared ones and RocksDB's own, and says who has examples."""
    tables = dict(sections())
    families = (*tables["Column families"], *tables["Column families of the layout"])
    registered = {row["column family"].strip("`"): row["status"] for row in families}

    assert {*FAMILIES, *SHARED_CFS, "default"} == registered.keys()
    standard = {name for name, status in registered.items() if status == "standard"}
    assert standard == registered.keys() & tables.keys() | {LOCAL_CF}  # whose marks no dump shows: the next test


def test_every_node_local_mark_is_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of an unfinished replay, of a version that is not named yet and of cleaning are those that are shown."""
    marks = {unhex(row["record"]): unhex(row["content"]) for row in dict(sections())["Node-local marks"]}

    monkeypatch.setattr(staging, "STAGED_BYTES", 0)
    monkeypatch.setattr(reclaim, "POINTS_MAX", 0)
    store = new_store()
    open_machine(store).apply([event(0, "SADD tags red"), event(1, "COPY tags copy")], 0)

    taken_over = Changes()
    settle(taken_over, home_of(), replace(home_of(), layout="neokv1"))
    fixed = {**replaying_changes(begins=True).values[LOCAL_CF], **taken_over.values[LOCAL_CF]}
    shown = {**fixed, **family(store, LOCAL_CF), **cleaned_marks()}
    assert shown == marks


def test_every_type_code_is_registered() -> None:
    """The register's codes are those of the engine, and every standard one has a metadata example."""
    tables = dict(sections())
    codes = {int(row["code"]): row["type"] for row in tables["Type codes"] if row["type"]}
    examples = {NeoKV(0).parse_metadata(unhex(row["value"])).type for row in tables["metadata"]}

    assert codes == TYPE_NAMES
    assert examples == {int(row["code"]) for row in tables["Type codes"] if row["status"] == "standard"}


def test_every_packed_reply_is_registered() -> None:
    """Each tag has its example, which packs to these bytes and comes back; there is no tag that is not shown."""
    shown = {row["tag"].strip("`"): unhex(row["bytes"]) for row in dict(sections())["Packed replies"]}

    assert shown == {tag: pack(reply) for tag, reply in REPLIES.items()}
    assert [shape(reply) for reply in REPLIES.values()] == [shape(unpack(packed)) for packed in shown.values()]
