"""Stored libraries: their records, and a state that is opened again."""

from __future__ import annotations

import pytest

from engine.errors import CorruptionError
from engine.store.store import SYSTEM_CF, Changes
from engine.tables.libraries import PREFIX, Function, Libraries, library_of, pack, parse_record
from tests.engine.harness import new_store

F, G = Function(b"F", b"what it does", 3), Function(b"g", None, 0)
CODE = b"#!lua name=lib\n"
LIBRARY = library_of(CODE, (G, F))


def test_a_record_is_read_as_it_was_written() -> None:
    """Functions stand in the order of their names; a description may be empty, or not there."""
    library = library_of(CODE, (G, F, Function(b"h", b"", 31)))
    assert library == parse_record(pack(library))
    assert [b"F", b"g", b"h"] == [function.name for function in library.functions]


@pytest.mark.parametrize("cut", range(len(pack(LIBRARY)) - len(CODE)))
def test_no_beginning_of_a_record_is_one(cut: int) -> None:
    """A record that ends before its code does not pass for another one."""
    assert parse_record(pack(LIBRARY)[:cut]) is None


@pytest.mark.parametrize(
    "value", [b"", bytes(4) + CODE, pack(LIBRARY).replace(b"g\0#", b"g\2#"), b"\xff" * 40, b"\0\0\0\1" + b"\xff" * 40]
)
def test_a_record_that_is_none_is_damage(value: bytes) -> None:
    """A record without functions, with a mark that is none, or with lengths beyond its end is refused."""
    store, changes = new_store(), Changes()
    changes.of(SYSTEM_CF)[PREFIX + b"lib"] = value
    store.write(changes)
    with pytest.raises(CorruptionError, match="cannot be read"):
        Libraries(store)


def test_a_function_is_found_in_any_case() -> None:
    """FCALL may write a name as it likes; the function has the name with which it was registered."""
    libraries = Libraries(new_store())
    libraries.keep(b"lib", LIBRARY, Changes())
    found = [libraries.find(name) for name in (b"f", b"F", b"G", b"h")]
    assert [(LIBRARY, F), (LIBRARY, F), (LIBRARY, G), None] == found


def test_an_opened_state_has_its_libraries() -> None:
    """Read from the store, libraries, functions and sizes are the same."""
    store, changes = new_store(), Changes()
    libraries = Libraries(store)
    libraries.keep(b"lib", LIBRARY, changes)
    libraries.keep(b"gone", library_of(b"x", (Function(b"h", None, 0),)), changes)
    libraries.remove(b"gone", changes)
    store.write(changes)
    opened = Libraries(store)
    assert (libraries.by_name, libraries.bytes, 2) == (opened.by_name, opened.bytes, opened.function_count)
    assert (None, (LIBRARY, G)) == (opened.find(b"h"), opened.find(b"g"))
