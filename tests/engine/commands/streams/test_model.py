"""Random commands on streams give what the plain model gives: replies of XDELEX and XACKDEL, and the contents.

The servers that the other commands are compared with have neither these two nor KEEPREF, DELREF and ACKED.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from random import Random
from typing import Any, Final
from unittest.mock import patch

import pytest

from engine.apply.machine import Machine
from engine.batch.keys.stream_parts import StreamRecords
from engine.batch.overlaid import Subkeys
from engine.commands.streams import group_reading
from engine.errors import PartitionStoppedError
from engine.layouts.layout import Form
from engine.model import STREAM
from engine.proof.digest import digest
from engine.store.memory import MemoryStore
from engine.types.stream import stream_index
from engine.types.stream.stream_references import Deletion
from slotlog.shared.errors import InvariantError
from tests.consistency import problems
from tests.differential.forms import lowered
from tests.engine.harness import FINGERPRINT, NOW_MS, new_store, open_machine
from tests.layouts import layout_of
from tests.model import Model
from tests.model_stream import Stream, parse
from tests.simulation.stream_events import STREAMS

pytestmark = pytest.mark.form(Form.STREAMS)

SEEDS: Final = int(os.environ.get("SLOTLOG_STREAM_SEEDS", "60"))
STEPS: Final = 120
BATCH: Final = 8
SEEDS_TO_FIND_A_BUG: Final = 40
CODES: Final = (b"XDELEX", b"XACKDEL")
NAMES: Final = (
    *(b"XADD", b"XADD", b"XADD", b"XREADGROUP", b"XREADGROUP", b"XGROUP|CREATE") * 6,
    *(b"XACKDEL", b"XACKDEL", b"XACKDEL", b"XDELEX", b"DEL", b"XGROUP|DESTROY", b"XGROUP|DESTROY", *STREAMS),
)


class _Run:
    """One machine beside one model."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.store: MemoryStore = new_store()
        self.machine: Machine = open_machine(self.store)
        self.model = Model()
        self.now_ms = NOW_MS
        self.seen: Counter[tuple[bytes, int]] = Counter()

    def difference(self) -> str:
        """The steps up to the first one after which both are not the same; empty when there is none."""
        steps = []
        for step in range(STEPS):
            self.now_ms += self.random.choice((0, 1, 400))
            name = self.random.choice(NAMES)
            args = STREAMS[name](self.random) if name in STREAMS else [b"x"]
            steps.append(b" ".join([name, *args]).decode())
            if problem := self._apply(step, name, args):
                return "\n".join([*steps, problem])
        return "\n".join(problems(self.store))

    def _apply(self, step: int, name: bytes, args: list[bytes]) -> str:
        expected = self._expected(name, args)
        record = (step, self.now_ms, name, args, 0, None, None)
        actual = self.machine.apply([record], step, waiting={step}).outcomes[step]
        self.model.apply(self.now_ms, name, args)
        if expected is not None and expected != actual:
            return f"expected {expected}, not {actual}"
        if name in CODES and isinstance(actual, list):
            self.seen.update((name, code) for code in actual)
        if self.random.randrange(BATCH) == 0 or step + 1 == STEPS:
            self.machine.commit(FINGERPRINT)
            if digest(self.store, layout_of(), self.now_ms) != self.model.digest():
                return "the contents differ"
        return ""

    def _expected(self, name: bytes, args: list[bytes]) -> Any:
        """What the model replies; None where it does not know, or there is no stream."""
        entry = self.model.typed(b"x", STREAM)
        if entry is None:
            return None
        stream: Stream = deepcopy(entry.value)
        if name == b"XDEL":
            return stream.delete(list(map(parse, args[1:])))
        if name == b"XTRIM":
            return stream.trim(args[1:])
        if name == b"XDELEX":
            return [stream.delete_with(args[1], parse(text)) for text in args[4:]]
        if name == b"XACKDEL":
            return [stream.acknowledge_and_delete(args[1], args[2], parse(text)) for text in args[5:]]
        return None


@pytest.mark.parametrize("forms", ["usual", "large"])
def test_contents_and_replies_are_the_models(forms: str) -> None:
    """Whatever the sequence and its batches; also with the forms of large streams: blocks, and deleted ranges."""
    seen: Counter[tuple[bytes, int]] = Counter()
    found = {}
    with nullcontext() if forms == "usual" else lowered():
        for seed in range(SEEDS):
            run = _Run(seed)
            if difference := run.difference():
                found[seed] = difference
            seen += run.seen

    assert {} == found
    assert [] == [(name, code) for name in CODES for code in (-1, 1, 2) if not seen[name, code]]


def _forgetful_ranges() -> AbstractContextManager[Any]:
    """What a batch has deleted by range is there until it is written."""

    def scan(records: StreamRecords, *args: bytes, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        return Subkeys.scan(records, *args, reverse=reverse)

    return patch.multiple(StreamRecords, scan=scan, get=Subkeys.get)


def _pending_alone() -> AbstractContextManager[Any]:
    """ACKED looks at what is pending, and not at what a group has not got yet."""

    def is_needed(deletion: Deletion, entry_id: bytes) -> bool:
        return any(group.pending_entry(entry_id) is not None for group in deletion._groups)

    return patch.object(Deletion, "is_needed", is_needed)


def _uncounted() -> AbstractContextManager[Any]:
    """XDEL leaves the counts of entries as they are."""
    return patch.object(stream_index, "count_out", lambda *_: None)


def _given_again() -> AbstractContextManager[Any]:
    """A group forgets what it has given."""
    return patch.object(group_reading, "read_up_to", lambda *_: None)


@pytest.mark.damaging
@pytest.mark.parametrize("plant", [_forgetful_ranges, _pending_alone, _uncounted, _given_again])
def test_planted_bugs_are_found(plant: Callable[[], AbstractContextManager[Any]]) -> None:
    """Each planted bug shows in one of the first seeds."""
    with lowered(), plant():
        assert any(_is_wrong(seed) for seed in range(SEEDS_TO_FIND_A_BUG))


def _is_wrong(seed: int) -> bool:
    try:
        return bool(_Run(seed).difference())
    except (PartitionStoppedError, InvariantError):
        return True
