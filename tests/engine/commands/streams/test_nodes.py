"""XADD and XTRIM with `~` take the oracle's nodes; behind XDEL and exact trims, those of a plain model."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from random import Random
from typing import Any, Final

import pytest

from engine.apply.machine import Machine
from engine.layouts.layout import Form
from engine.store.memory import MemoryStore
from engine.tables.system import RULES_OF_STREAM_NODES
from engine.values.rdb.compact import listpack
from tests.consistency import problems
from tests.differential.forms import lowered
from tests.engine.harness import FINGERPRINT, apply, new_store, open_machine, send
from tests.real.oracle import Connection

pytestmark = pytest.mark.form(Form.STREAMS)

SEEDS: Final = int(os.environ.get("SLOTLOG_STREAM_SEEDS", "60")) // 12
STEPS: Final = 500
LENGTHS: Final = (0, 1, 10, 60, 99, 100, 101, 150, 200, 250)
LIMITS: Final = (0, 1, 50, 99, 100, 120, 200)
RULES: Final = f"RULES {RULES_OF_STREAM_NODES}"

Entry = tuple[tuple[int, int], list[bytes]]


def filled(entries: int, value: str = "v", *, rules: str = RULES) -> Machine:
    """A machine with a stream `s` of so many entries, the ids of which count from 1-0."""
    machine = open_machine(new_store())
    send(machine, rules, *(f"XADD s {number}-0 f {value}" for number in range(1, entries + 1)))
    return machine


class _Author:
    """Random commands on one stream: many entries of one kind, and now and then a trim."""

    def __init__(self, seed: int, *, deletes: bool) -> None:
        self.random = Random(seed)
        self.ms, self.seq = 1000, 0
        self.deletes = deletes
        self.value = self.random.choice((self._short, self._long, self._any))
        self.fields = self.random.choice(([b"f"], [b"name", b"age"], [b"1", b"22"]))

    def command(self) -> list[bytes]:
        """The next one."""
        what = self.random.random()
        if what < 0.94:
            return self._add()
        if self.deletes and what < 0.96:
            return [b"XDEL", b"s", *(b"%d-0" % self.random.randint(1000, self.ms) for _ in range(40))]
        if self.deletes and what < 0.97:
            return [b"XTRIM", b"s", b"MAXLEN", b"%d" % self.random.choice((30, 133, 277))]
        return [b"XTRIM", b"s", *self._trim()]

    def _add(self) -> list[bytes]:
        step = self.random.choice((0, 0, 1, 1, 7, 1000))
        self.ms, self.seq = self.ms + step, 0 if step else self.seq + 1
        options = self._trim() if self.random.random() < 0.05 else []
        fields = self.fields if self.random.randrange(9) else [b"other%d" % self.random.randrange(9)]
        texts = [text for field in fields for text in (field, self.value())]
        return [b"XADD", b"s", *options, b"%d-%d" % (self.ms, self.seq), *texts]

    def _trim(self) -> list[bytes]:
        oldest = max(1, self.ms - self.random.choice((10, 3000, 60_000)))
        how = self.random.choice(((b"MAXLEN", self.random.choice(LENGTHS)), (b"MINID", oldest)))
        limit = [b"LIMIT", b"%d" % self.random.choice(LIMITS)] if self.random.randrange(3) == 0 else []
        return [how[0], b"~", b"%d" % how[1], *limit]

    def _short(self) -> bytes:
        return b"%d" % self.random.randint(-5000, 10 ** self.random.randrange(1, 12))

    def _long(self) -> bytes:
        return b"x" * self.random.randrange(30, 400)

    def _any(self) -> bytes:
        return self.random.choice((self._short, self._long, bytes))()


class _Model:
    """Entries in a list; the oldest node is found anew whenever one is asked for, from what a listpack would have."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def apply(self, command: list[bytes]) -> None:
        """One of the commands of `_Author`."""
        words = command[2:]
        if command[0] == b"XDEL":
            self.entries = [each for each in self.entries if b"%d-%d" % each[0] not in words]
            return
        if command[0] == b"XADD":
            at = next(at for at, word in enumerate(words) if b"-" in word)
            ms, seq = words[at].split(b"-")
            self.entries.append(((int(ms), int(seq)), words[at + 1 :]))
            words = words[:at]
        if b"~" in words:
            self._trim(words[0], int(words[2]), int(words[4]) if len(words) > 3 else 10_000)
        elif words:
            self.entries = self.entries[max(len(self.entries) - int(words[1]), 0) :]

    def _trim(self, how: bytes, threshold: int, limit: int) -> None:
        gone = 0
        while self.entries:
            node = self._node()
            if limit and gone + node > limit:
                return
            if (
                len(self.entries) - node < threshold
                if how == b"MAXLEN"
                else self.entries[node - 1][0] >= (threshold, 0)
            ):
                return
            if how == b"MAXLEN" and len(self.entries) <= threshold:
                return
            del self.entries[:node]
            gone += node

    def _node(self) -> int:
        """How many entries the oldest node has."""
        (ms, seq), first = self.entries[0]
        elements = [b"1", b"0", b"%d" % (len(first) // 2), *first[::2], b"0"]
        size = len(listpack(elements))
        for count, (entry_id, texts) in enumerate(self.entries[:100]):
            if count and size + sum(map(len, texts)) >= 4096:
                return count
            words = texts[1::2] if texts[::2] == first[::2] else [b"%d" % (len(texts) // 2), *texts]
            words = [b"0", b"%d" % (entry_id[0] - ms), b"%d" % (entry_id[1] - seq), *words]
            size += len(listpack([*words, b"%d" % len(words)])) - len(listpack([]))
        return min(len(self.entries), 100)


def played(author: _Author, store: MemoryStore) -> Iterator[tuple[list[bytes], Any, list[Any] | None]]:
    """Each command, its outcome, and what it has left, where it may have taken something.

    The machine commits now and then, and is opened anew.
    """
    machine = open_machine(store)
    send(machine, RULES)
    for _ in range(STEPS):
        name, *args = command = author.command()
        start = machine.next_offset
        records = [(start, 0, name, args, 0, None, None)]
        if name != b"XADD" or b"~" in args:
            records.append((start + 1, 0, b"XRANGE", [b"s", b"-", b"+"], 0, None, None))
        outcomes = apply(machine, *records).outcomes
        yield command, outcomes[start], outcomes.get(start + 1)
        if author.random.randrange(9) == 0:
            machine.commit(FINGERPRINT)
        if author.random.randrange(90) == 0:
            machine.commit(FINGERPRINT)
            machine = open_machine(store)
    machine.commit(FINGERPRINT)


@pytest.mark.parametrize("forms", ["usual", "large"])
def test_the_oracle_takes_the_same_nodes(oracle: Connection, forms: str) -> None:
    """Where only `~` trims, replies and entries are those of the oracle: of all lengths, ids, limits and values."""
    for seed in range(SEEDS):
        with _forms(forms):
            oracle.call("DEL", "s")
            store = new_store()
            for command, outcome, entries in played(_Author(seed, deletes=False), store):
                assert oracle.call(*command) == outcome
                if entries is not None:
                    assert oracle.call("XRANGE", "s", "-", "+") == entries
            assert [] == problems(store)


@pytest.mark.parametrize("forms", ["usual", "large"])
def test_nodes_follow_from_the_entries(forms: str) -> None:
    """Behind XDEL and exact trims, too, the first entry begins a node, whatever was in memory of the one before."""
    for seed in range(SEEDS):
        with _forms(forms):
            model, store = _Model(), new_store()
            for command, _, entries in played(_Author(seed, deletes=True), store):
                model.apply(command)
                if entries is not None:
                    assert [[b"%d-%d" % entry_id, texts] for entry_id, texts in model.entries] == entries
            assert [] == problems(store)


def _forms(forms: str) -> AbstractContextManager[object]:
    return nullcontext() if forms == "usual" else lowered()


def test_a_short_stream_is_emptied() -> None:
    """`MAXLEN ~ 0` leaves nothing, `MAXLEN ~ 1` all of the only node; XADD may take its own entry with the others."""
    assert [0, 30, 0] == send(filled(30), "XTRIM s MAXLEN ~ 1", "XTRIM s MAXLEN ~ 0", "XLEN s")
    assert [b"31-0", 0] == send(filled(30), "XADD s MAXLEN ~ 0 31-0 f v", "XLEN s")


@pytest.mark.parametrize(
    ("words", "gone"),
    [
        ("MINID ~ 1", 0),
        ("MINID ~ 100", 0),
        ("MINID ~ 100-1", 100),
        ("MINID ~ 200", 100),
        ("MINID ~ 250", 200),
        ("MINID ~ 250-1", 250),
        ("MINID ~ 999 LIMIT 249", 200),
        ("MAXLEN ~ 250", 0),
        ("MAXLEN ~ 151", 0),
        ("MAXLEN ~ 150", 100),
        ("MAXLEN ~ 49", 200),
        ("MAXLEN ~ 0", 250),
        ("MAXLEN ~ 0 LIMIT 99", 0),
        ("MAXLEN ~ 0 LIMIT 100", 100),
        ("MAXLEN ~ 0 LIMIT 249", 200),
        ("MAXLEN ~ 0 LIMIT 250", 250),
        ("MAXLEN ~ 0 LIMIT 0", 250),
    ],
)
def test_whole_nodes_go(oracle: Connection, words: str, gone: int) -> None:
    """Of 100, 100 and 50 short entries."""
    machine = filled(250)
    oracle.pipeline([b"XADD", b"s", b"%d-0" % number, b"f", b"v"] for number in range(1, 251))

    assert [gone] == send(machine, f"XTRIM s {words}") == [oracle.call("XTRIM", "s", *words.split())]


def test_a_node_is_full_at_the_same_byte(oracle: Connection) -> None:
    """Of two entries the second one begins a node of its own where the first is long enough, and not a byte before."""
    machine = filled(0)
    found = []
    for size in range(4040, 4080):
        lines = ("DEL s", f"XADD s 1-0 f {'v' * size}", "XADD s 2-0 f v", "XTRIM s MAXLEN ~ 1")
        found.append(send(machine, *lines)[-1])
        assert found[-1] == oracle.pipeline(line.split() for line in lines)[-1]

    assert {0, 1} == set(found)


def test_references_keep_to_nodes_by_length_alone() -> None:
    """With DELREF or ACKED MAXLEN takes as many entries as whole nodes have, and MINID single ones."""
    machine = filled(150)
    send(machine, "XGROUP|CREATE s g 50")

    assert [0, 100, 50] == send(machine, "XTRIM s MAXLEN ~ 51 DELREF", "XTRIM s MAXLEN ~ 50 DELREF", "XLEN s")
    assert [9] == send(machine, "XTRIM s MINID ~ 110 DELREF")


def test_older_rules_take_hundreds() -> None:
    """Before rules 3 MAXLEN takes hundreds of entries and MINID each that is below."""
    machine = filled(250, "v" * 200, rules="RULES 2")

    assert [100, 79] == send(machine, "XTRIM s MAXLEN ~ 101", "XTRIM s MINID ~ 180")
    assert [0, b"OK", 71] == send(machine, "XTRIM s MAXLEN ~ 0", RULES, "XTRIM s MAXLEN ~ 0")
