"""RENAME, COPY and MOVE where replies do not show it: every record goes along, and nothing stays behind alive."""

from __future__ import annotations

import pytest

from engine.store.store import EXPIRY_CF, GRAVEYARD_CF
from tests.consistency import problems
from tests.engine.harness import NOW_MS, family, new_store, open_machine, send

CONTENTS = {
    "SET k value": ("GET", [b"k"], b"value"),
    "HSET k f v g w": ("HGETALL", [b"k"], [(b"f", b"v"), (b"g", b"w")]),
    "LPUSH k a b c": ("LRANGE", [b"k", b"0", b"-1"], [b"c", b"b", b"a"]),
    "SADD k a b": ("SMEMBERS", [b"k"], [b"a", b"b"]),
    "ZADD k 2 a 1 b": ("ZRANGE", [b"k", b"0", b"-1"], [b"b", b"a"]),
}
"""What makes a key `k`, and a question about it with its answer."""


@pytest.mark.parametrize("make", CONTENTS)
@pytest.mark.parametrize("committed", [True, False])
def test_contents_and_expiry_are_taken_along(make: str, committed: bool) -> None:
    """A key of each type, renamed over another one: what it held, when it dies, and one entry in the index of that."""
    store = new_store()
    machine = open_machine(store)
    lines = [make, "PEXPIREAT k 4102444800000", "RPUSH other x y", "RENAME k other"]
    if committed:
        send(machine, *lines[:3])
        send(machine, lines[3])
    else:
        send(machine, *lines)

    name, args, expected = CONTENTS[make]
    assert expected == machine.read(name.encode(), [b"other", *args[1:]])
    assert (4102444800000, 0) == tuple(send(machine, "PEXPIRETIME other", "EXISTS k"))
    assert 1 == len(family(store, EXPIRY_CF))
    assert [] == problems(store)


@pytest.mark.parametrize("make", CONTENTS)
def test_a_copy_is_its_own_key(make: str) -> None:
    """What becomes of the source later does not change the copy."""
    store = new_store()
    machine = open_machine(store)
    send(machine, make, "COPY k c", "DEL k", make.replace("a", "zzz"))

    name, args, expected = CONTENTS[make]
    assert expected == machine.read(name.encode(), [b"c", *args[1:]])
    assert [] == problems(store)


@pytest.mark.parametrize("make", CONTENTS)
def test_a_key_is_moved_to_another_database(make: str) -> None:
    """It is gone here and there in full; the commands after it run where they were sent to."""
    store = new_store()
    machine = open_machine(store)
    name, args, expected = CONTENTS[make]

    assert [1, 0] == send(machine, make, "MOVE k 3", "EXISTS k")[1:]
    assert expected == machine.read(name.encode(), args, 3)
    assert [b"OK"] == send(machine, "SET later 1")
    assert 1 == machine.read(b"EXISTS", [b"later"], 0)
    assert [] == problems(store)


def test_a_transaction_goes_on_in_its_database() -> None:
    """COPY and MOVE to another database do not change where the next command of an EXEC runs."""
    machine = open_machine(new_store())
    send(machine, "SET a 1", "SET b 1")
    copy, move, set_c = [b"COPY", b"a", b"x", b"DB", b"2"], [b"MOVE", b"b", b"2"], [b"SET", b"c", b"1"]

    assert [[1, 1, b"OK"]] == send(machine, [copy, move, set_c])
    assert (1, 2) == (machine.read(b"EXISTS", [b"c"], 0), machine.read(b"EXISTS", [b"x", b"b", b"c"], 2))


def test_an_expired_key_is_none_to_copy() -> None:
    """A source that is due is absent, and a destination that is due is free."""
    machine = open_machine(new_store())
    send(machine, "SET a 1 PXAT 1700000000500", "SET b 2", "SET c 3 PXAT 1700000000500")

    due_ms = NOW_MS + 500
    assert ["ERR no such key", 0, 1] == [
        getattr(reply, "message", reply)
        for reply in send(machine, "RENAME a b", "COPY a d", "RENAMENX b c", at_ms=due_ms)
    ]


def test_a_renamed_collection_leaves_one_grave() -> None:
    """The elements under the old name are orphans that the graveyard lists."""
    store = new_store()
    send(open_machine(store), "SADD k a b c", "RENAME k n")

    assert 1 == len(family(store, GRAVEYARD_CF))
