"""The page of the layout `neokv1`, run: the engine writes its strings, and all else as in `neokv`."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

import engine
from engine.apply.machine import Machine, Record
from engine.layouts.neokv import NeoKV
from engine.layouts.neokv.phase1 import Phase1
from engine.model import STRING, Metadata
from engine.proof.walk import raw_records
from engine.store.memory import MemoryStore
from engine.store.store import SYSTEM_CF, Changes
from tests.consistency import problems
from tests.engine.harness import family, new_store
from tests.engine.stored import key_of
from tests.layouts import home_of

ENGINE = Path(engine.__file__).parent
PAGE = (ENGINE / "layouts" / "neokv1" / "FORMAT.md").read_text()
FORM = Phase1()
LONG = key_of(b"bits") + b"S", bytes(8) + bytes(131_072) + b"x"
"""The one string whose bytes the page does not show."""


def shown_strings() -> dict[bytes, bytes]:
    """The example records of the page, whole."""
    rows = re.findall(r"^\|[^|]*\| standard \| `([0-9a-f ]+)` \| `([0-9a-f ]+)` \|$", PAGE, flags=re.MULTILINE)
    return {bytes.fromhex(key): bytes.fromhex(value) for key, value in rows}


def stream() -> list[Record]:
    """The events at the end of the page that all layouts share, without their sessions."""
    (block,) = re.findall(r"^```events\n(.*?)^```", (ENGINE / "FORMAT.md").read_text(), flags=re.MULTILINE | re.DOTALL)
    records: list[Record] = []
    for line in block.splitlines():
        offset, at_ms, db, _, session, name, *words = line.encode().split(b" ")
        args = [word.replace(rb"\t", b"\t").replace(rb"\n", b"\n") for word in words]
        if session == b"-":
            records.append((int(offset), int(at_ms), name, args, int(db), None, None))
    return records


def state_of(layout: str) -> MemoryStore:
    """The state that the stream leaves in a layout; both have the same column families."""
    store = new_store()
    machine = Machine(store, replace(home_of(), layout=layout))
    machine.apply(stream(), 0)
    machine.commit(b"mark")
    return store


def test_strings_are_as_the_page_shows_them() -> None:
    """The strings that the stream leaves are those of the page and the long one, each as one record of `data`."""
    found = {key: value for key, value in family(state_of("neokv1"), "data").items() if FORM.owner(key)}

    assert len(shown_strings()) == 3
    assert {**shown_strings(), LONG[0]: LONG[1]} == found


BEHIND = (key_of(b"bits"), key_of(b"sensor"))
"""The beginnings of the records of a string in fragments, and of the stream that is made behind it."""


def test_all_else_is_as_in_neokv() -> None:
    """But for strings, their fragments and versions after those, the two leave the same records."""
    new, old = (
        [
            (name, key, value)
            for name, key, value in raw_records(state_of(layout), NeoKV(0))
            if name != SYSTEM_CF and not key.startswith(BEHIND) and not is_string(name, key, value)
        ]
        for layout in ("neokv", "neokv1")
    )

    assert len(new) > 20
    assert new == old


def is_string(name: str, key: bytes, value: bytes) -> bool:
    """Whether a record is that of a string in either layout."""
    if name == "metadata":
        return NeoKV.parse_metadata(value).type == STRING
    return name == "data" and FORM.owner(key) is not None


@pytest.mark.damaging
def test_a_string_of_the_other_form_is_damage() -> None:
    """A string with a metadata record is read, and the audit names it."""
    store = state_of("neokv1")
    changes, key = Changes(), key_of(b"greeting")
    changes.of("metadata")[key] = NeoKV.pack_metadata(Metadata(STRING, 0, value=b"hello"))
    changes.of("data")[FORM.key(key)] = None
    store.write(changes)

    assert ["unreadable: b'greeting' of database 0 has a metadata record, as no string here has"] == problems(store)


@pytest.mark.damaging
@pytest.mark.parametrize("tag", b"HLEZ")
def test_reserved_tags_are_damage(tag: int) -> None:
    """A record with the tag of another type is no string, and the audit names it."""
    store = state_of("neokv1")
    changes = Changes()
    changes.of("data")[key_of(b"greeting") + bytes((tag,))] = bytes(9)
    store.write(changes)

    assert FORM.owner(key_of(b"greeting") + bytes((tag,))) is None
    (problem,) = problems(store)
    assert "data" in problem
