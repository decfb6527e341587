"""Files that real servers write and load, and the states that become of them."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from string import ascii_lowercase, ascii_uppercase, digits
from typing import Any, Final, NamedTuple

from engine.apply.machine import Machine
from engine.store.store import Store
from ops.importing.rdb.source import RdbSource, open_source
from ops.importing.source import Command as Event
from ops.importing.source import ImportKey, LeftOut, Options
from slotlog.events import decode, encode
from tests.engine.harness import new_store, open_machine
from tests.real.oracle import Connection, Oracle, SimpleString

ANY: Final = Options(None, frozenset(), 1, once=True, layout="")
NOW_MS: Final = 1_900_000_000_000
"""Of the state: later than the clock of the servers."""

FAR_MS: Final = 4_102_444_800_000

MODULE_VALUES: Final = b"\x01\x05\x02\x80\x00\x00\x01\x00\x03" + bytes(4) + b"\x04" + bytes(8) + b"\x05\x03abc\x00"
"""A module's value: a signed and an unsigned integer, a float, a double, a string."""

_LETTERS: Final = ascii_uppercase + ascii_lowercase + digits + "-_"

Command = list[bytes | str | float]


class Brought(NamedTuple):
    """What became of a file: keys by type, what was left out, the events, and what to know."""

    types: Counter[str]
    left_out: list[LeftOut]
    events: int
    notes: list[str]


def module(name: str) -> bytes:
    """The number of the module with these nine letters, as a length."""
    bits = zip(name, range(58, 9, -6), strict=True)
    return b"\x81" + sum(_LETTERS.index(letter) << shift for letter, shift in bits).to_bytes(8, "big")


def saved(server: Oracle, connection: Connection, to: Path) -> Path:
    """The file that the server writes of everything that it holds."""
    assert SimpleString(b"OK") == connection.call("SAVE")
    return Path(shutil.copy(Path(server.path).parent / "dump.rdb", to))


def load(server: Oracle, connection: Connection, file: Path) -> None:
    """Let the server hold what the file does, and nothing else."""
    shutil.copy(file, Path(server.path).parent / "dump.rdb")
    assert SimpleString(b"OK") == connection.call("DEBUG", "RELOAD", "NOSAVE"), file


def source_of(file: Path, options: Options = ANY) -> RdbSource:
    """The file as a source."""
    return open_source(str(file), options)


def bring(source: RdbSource, machine: Machine, mark: str | None = None) -> Brought:
    """Apply every event of a source, each as a worker decodes it, in batches."""
    types: Counter[str] = Counter()
    left_out: list[LeftOut] = []
    events = 0
    for each in source.keys(mark):
        if isinstance(each, LeftOut):
            left_out.append(each)
            continue
        types[each.type] += 1
        events += _apply(each, machine)
    machine.commit(b"the log's mark")
    return Brought(types, left_out, events, list(source.notes()))


def state_of(file: Path, options: Options = ANY) -> tuple[Store, Machine, Brought]:
    """A state of nothing but the file."""
    store = new_store()
    machine = open_machine(store)
    source = source_of(file, options)
    try:
        return store, machine, bring(source, machine)
    finally:
        source.close()


def record(event: Event, offset: int, db: int) -> tuple[Any, ...]:
    """An event as the machine takes it, by way of its bytes."""
    name, arguments = event
    return decode(offset, NOW_MS, encode(name, arguments, db=db))


def _apply(key: ImportKey, machine: Machine) -> int:
    count = 0
    for name, arguments in key.events:
        offset = machine.next_offset
        applied = machine.apply([record((name, list(arguments)), offset, key.db)], offset)
        assert not applied.dead_letters, (key.name, applied.dead_letters)
        count += 1
        machine.commit(b"the log's mark")
    return count


def fill(connection: Connection, *, many: int) -> None:
    """Every type and odd keys in databases 0, 3 and 15; collections of three and of `many` elements."""
    for db in (0, 3, 15):
        assert SimpleString(b"OK") == connection.call("SELECT", db)
        for reply in connection.pipeline([*_small(), *_large(many)]):
            assert not type(reply).__name__.startswith("Error"), reply
    connection.call("SELECT", 0)


def _small() -> list[Command]:
    numbers: list[Command] = [
        ["SET", f"number {number}", number] for number in (0, -1, 127, -129, 32768, -(2**31), 2**31, 2**63 - 1)
    ]
    return [
        *numbers,
        ["SET", "text", "v"],
        ["SET", "", "of the empty key"],
        ["SET", b"\xff\x00\r\n", b"\x00\xfe" * 40],
        ["SET", "k" * 65536, "of a long key"],
        ["SET", "12345", "of a number"],
        ["SET", "dying", "v", "PXAT", FAR_MS],
        ["PFADD", "hll", "a", "b", "c"],
        ["SETBIT", "bits", 70, 1],
        ["RPUSH", "list", "a", 1, -5, b"\xff", 70_000, ""],
        ["SADD", "numbers", 1, -2, 3, 100, 20, -30],
        ["SADD", "wide numbers", 1, -(2**40)],
        ["SADD", "set", "a", 1, ""],
        ["HSET", "hash", "f", "v", "", "", 7, 8],
        ["PEXPIREAT", "hash", FAR_MS + 1],
        ["ZADD", "zset", 1.5, "a", "-inf", "b", "inf", "c", 3, "d", "-0.1", "", "1e-300", "tiny"],
    ]


def _large(many: int) -> list[Command]:
    words = [f"element {number} {'x' * (number % 90)}" for number in range(many)]
    return [
        ["SET", "long text", "slotlog " * 20_000],
        ["SET", "long bytes", bytes(range(256)) * 600],
        ["RPUSH", "long list", *words, "y" * 20_000, *words],
        ["SADD", "many numbers", *range(-many, 5 * many, 3)],
        ["SADD", "large set", *words],
        ["HSET", "large hash", *(part for word in words for part in (word, len(word)))],
        ["ZADD", "large zset", *(part for at, word in enumerate(words) for part in (at / 7, word))],
        ["PEXPIREAT", "large zset", FAR_MS + 2],
    ]
