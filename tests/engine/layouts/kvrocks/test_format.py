"""The page of bytes on disk, run: every example is what the engine writes, and it writes nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import engine
from engine.apply.machine import Record
from engine.layouts.layout import Kind
from tests.engine.harness import FAMILIES, new_store, open_machine, records_of
from tests.layouts import layout_of

PAGE = (Path(engine.__file__).parent / "layouts" / "kvrocks" / "FORMAT.md").read_text()


def rows_of(title: str) -> list[dict[str, str]]:
    """The rows of the table under a title, by column name."""
    body = PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    table = [[cell.strip(" `") for cell in line.split("|")[1:-1]] for line in body.splitlines() if line.startswith("|")]
    return [dict(zip(table[0], row, strict=True)) for row in table[2:]]


def written() -> list[tuple[str, bytes, bytes]]:
    """The records of the layout that the stream leaves in an empty state."""
    (block,) = re.findall(r"^```events\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
    events: list[Record] = []
    for line in block.splitlines():
        offset, at_ms, db, name, *args = line.encode().split(b" ")
        events.append((int(offset), int(at_ms), name, args, int(db), None, None))
    store = new_store()
    machine = open_machine(store)
    applied = machine.apply(events, 0)
    assert ([], 0) == (applied.dead_letters, applied.rejected)
    machine.commit(b"mark")
    return [record for record in records_of(store) if record[0] in FAMILIES]


@pytest.mark.layout("kvrocks")
def test_every_example_is_what_is_written() -> None:
    """The records of the page are exactly those that its stream leaves: none differs, is missing or is hidden."""
    shown = [
        (family, bytes.fromhex(row["key"]), bytes.fromhex(row["value"]))
        for family in FAMILIES
        for row in rows_of(f"`{family}`")
    ]

    assert sorted(shown) == written()


@pytest.mark.layout("kvrocks-cluster")
def test_every_key_has_its_slot() -> None:
    """In cluster mode the same records are written, with the slot behind the namespace; the page has examples."""
    plain = {
        (family, row["key"].replace(" ", ""), row["value"].replace(" ", ""))
        for family in FAMILIES
        for row in rows_of(f"`{family}`")
    }
    layout, slots, found = layout_of(), set(), written()
    for family, key, value in found:
        head = 1 + key[0]
        owner = key if family == layout.families[Kind.METADATA] else layout.owner(Kind.DATA, key)[0]
        slots.add((key[head : head + 2], layout.cursor_slot(owner).to_bytes(2)))
        plain.discard((family, (key[:head] + key[head + 2 :]).hex(), value.hex()))

    assert set() == plain
    assert all(in_key == of_owner for in_key, of_owner in slots)
    shown = {(row["column family"], bytes.fromhex(row["key"])) for row in rows_of("In cluster mode")}
    assert shown <= {(family, key) for family, key, _ in found}


def test_every_column_family_is_registered() -> None:
    """The page has the layout's column families, and of those of Kvrocks the others."""
    registered = {row["column family"]: row["status"] for row in rows_of("Column families of the layout")}

    assert set(FAMILIES) == {name for name, status in registered.items() if status == "standard"}
