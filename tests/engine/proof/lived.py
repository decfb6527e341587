"""A state that has every form of key, and ways to look into it and to change what is stored."""

from __future__ import annotations

from typing import Final

from engine.layouts.layout import Form, Kind
from engine.model import Metadata
from engine.store.memory import MemoryStore
from engine.store.store import GRAVEYARD_CF, Store
from slotlog.shared.slots import slot
from tests.engine.harness import NOW_MS, apply, event, family, new_store, open_machine, send
from tests.engine.stored import put, stored
from tests.layouts import layout_of, member_kind

LAYOUT: Final = layout_of()
METADATA, DATA, SCORES, RANKS, TIMES, *_, STREAM, STREAM_INDEX = Kind
ELEMENTS: Final = member_kind()
MEMBERS: Final = 2000
SESSIONS: Final = (b"session of ann..", b"session of bob..")
WATCH_MS: Final = NOW_MS + 100
_TIMED: Final = (
    *("HSETEX timed PX 60000 FIELDS 2 a 1 b 2", "HSET timed c 3", "HSETEX whole PX 50000 FIELDS 2 a 1 b 2"),
    "HSETEX gone PX 60000 FIELDS 1 a 1",
)
_UNTIMED: Final = ("HSET timed a 1 b 2 c 3", "HSET whole a 1 b 2", "HSET gone a 1")
"""The same hashes where no field can have a time to live."""
_STREAMS: Final = (
    *(f"XADD stream {number}-1 f v" for number in range(1, 3001)),
    *("XDEL stream 7-1 2999-1", "XTRIM stream MINID 3-0", "XGROUP|CREATE stream crew 0", "XGROUP|CREATE stream idle 5"),
    *("XREADGROUP GROUP crew ann COUNT 4 STREAMS stream >", "XREADGROUP GROUP crew bob COUNT 1 STREAMS stream >"),
    *("XACK stream crew 4-1", "XADD gone:stream 1-1 f v", "XGROUP|CREATE gone:stream crew 0", "DEL gone:stream"),
    *("XGROUP|CREATE empty crew $ MKSTREAM", "XADD trimmed 1-1 f v", "XTRIM trimmed MAXLEN 0"),
)


def lived() -> MemoryStore:
    """A state with every form that the layout holds.

    All types, inline and large, with and without a time to live, in several databases.
    """
    store = new_store()
    timed = Form.FIELD_TIMES in LAYOUT.forms
    machine = open_machine(store)
    scored = " ".join(f"{number % 700} m{number}" for number in range(MEMBERS))
    send(
        machine,
        *("SET s 1", "SET t 2 PX 60000", "SETRANGE large 200000 x", "SETRANGE large 100 y", "SETBIT zeros 2000000 0"),
        *("HSET h a 1 b 2", "RPUSH l a b c d", "LPUSH l z", "SADD e a b c", "ZADD z 1 a 2.5 b -1 c"),
        *(_TIMED if timed else _UNTIMED),
        *("PEXPIRE l 70000", f"ZADD ranked {scored}", "ZREMRANGEBYSCORE ranked 100 130"),
        *(f"ZADD dead {scored}", "SADD gone:e a b", "SETRANGE gone:s 140000 x"),
        *("DEL dead gone gone:s", "SET gone:e x", "RPUSH gone:l a", "DEL gone:l"),
    )
    if Form.STREAMS in LAYOUT.forms:
        send(machine, *_STREAMS)
    for db in (2, 3, 4):
        send(machine, f"SET in{db} 1 PX 60000", "SADD e a", "ZADD z 1 a", db=db)
    send(machine, "SWAPDB 2 5", "HSET h:5 f v", at_ms=NOW_MS + 1)
    send(machine, "SWAPDB 0 7")
    offset = machine.next_offset
    watching = [(offset + n, WATCH_MS, b"WATCH", [b"h", b"s"], 0, None, session) for n, session in enumerate(SESSIONS)]
    apply(machine, *watching, event(offset + 2, "INCR n", at_ms=WATCH_MS, event_id=b"once"))
    machine.commit(b"mark")
    records = [(offset + 3, WATCH_MS, b"WATCH", [b"l"], 7, None, b"session of carl.")]
    apply(machine, *records, event(offset + 4, "LPUSH l new", at_ms=WATCH_MS, db=7))
    apply(machine, event(offset + 5, "INCR n", at_ms=WATCH_MS + 1, event_id=b"twice"))
    machine.commit(b"mark")
    return store


def key_of(name: bytes, db: int = 7) -> bytes:
    """The metadata key of `name`; what was written to database 0 is stored under that number and goes by 7 now."""
    return LAYOUT.metadata_key({7: 0}.get(db, db), slot(name), name)


def metadata_of(store: Store, name: bytes) -> Metadata:
    """What the metadata of a key says."""
    return LAYOUT.parse_metadata(stored(store, METADATA)[key_of(name)])


def prefix_of(store: Store, name: bytes, kind: Kind = DATA) -> bytes:
    """What the records of a key begin with."""
    return LAYOUT.prefix(kind, key_of(name), metadata_of(store, name).version)


def describe(store: Store, name: bytes, **facts: object) -> None:
    """Let the metadata of a key say something else."""
    put(store, METADATA, (key_of(name), LAYOUT.pack_metadata(metadata_of(store, name)._replace(**facts))))  # type: ignore[arg-type]


def below(store: Store, kind: Kind, name: bytes, tag: bytes = b"") -> list[tuple[bytes, bytes]]:
    """The records of a key of one kind whose subkeys begin with `tag`."""
    prefix = prefix_of(store, name, kind) + tag
    return [(key, value) for key, value in stored(store, kind).items() if key.startswith(prefix)]


def grave_of(store: Store, name: bytes) -> tuple[bytes, bytes]:
    """The graveyard entry of a key that had one life."""
    (grave,) = [(key, value) for key, value in family(store, GRAVEYARD_CF).items() if value.endswith(key_of(name))]
    return grave
