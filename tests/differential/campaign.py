"""Many random sequences of one group of commands, until one shows a difference or all are through."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import FlakyFailure

from engine.errors import PartitionStoppedError
from engine.store.memory import MemoryStore
from engine.store.rocks import RocksStore
from engine.store.store import Store
from tests.differential.forms import lowered
from tests.differential.minimize import smallest
from tests.differential.pair import Oracles, Pair, Tally
from tests.differential.strategy import STEPS_MAX, Step, sequences
from tests.differential.wire import RESP2, RESP3
from tests.layouts import column_families

FAMILIES: Final = column_families()


class Setting(NamedTuple):
    """What a sequence runs on: protocol and store, how either side holds its values, whether the engine cleans up."""

    protocol: int
    in_rocksdb: bool
    in_listpacks: bool
    in_large_forms: bool
    cleaned: bool


SETTINGS: Final = st.builds(
    Setting,
    st.sampled_from([RESP2, RESP3]),
    st.sampled_from([False] * 5 + [True]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)


class _DifferenceError(Exception):
    """Ends the search."""


def first_difference(group: str, oracles: Oracles, tally: Tally, commands: int, *, derandomize: bool) -> str:
    """The first difference between engine and oracle in about `commands` commands of `group`, empty when there is none.

    With `derandomize` the sequences are the same ones each time.
    """
    found: list[str] = []

    @settings(max_examples=2 * commands // STEPS_MAX, phases=[Phase.generate], derandomize=derandomize)
    @given(sequences(group), SETTINGS)
    def search(steps: list[Step], setting: Setting) -> None:
        if difference := _difference(steps, setting, oracles, tally):
            few = smallest(steps, lambda some: bool(_difference(some, setting, oracles, tally)))
            again = _difference(few, setting, oracles, tally) or f"seen once: {difference}"
            found.append("\n".join([str(setting), *map(str, few), again]))
            raise _DifferenceError

    with contextlib.suppress(_DifferenceError, FlakyFailure):  # the second: seen once, and not again
        search()
    return found[0] if found else ""


def _difference(steps: list[Step], setting: Setting, oracles: Oracles, tally: Tally) -> str:
    forms = lowered() if setting.in_large_forms else contextlib.nullcontext()
    with forms, _store(in_rocksdb=setting.in_rocksdb) as store:
        try:
            how = {"in_listpacks": setting.in_listpacks, "cleaned": setting.cleaned}
            Pair(store, oracles, setting.protocol, tally, **how).run(steps)
        except (AssertionError, PartitionStoppedError) as error:
            return f"{type(error).__name__}: {error}"
    return ""


@contextmanager
def _store(*, in_rocksdb: bool) -> Iterator[Store]:
    if not in_rocksdb:
        yield MemoryStore(FAMILIES)
        return
    with tempfile.TemporaryDirectory() as directory:
        store = RocksStore(Path(directory), FAMILIES)
        yield store
        store.close()
