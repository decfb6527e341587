"""The layout that the tests of a session run on: `pytest --layout NAME`.

One suite, every implementation: a test of the engine takes its layout from here and names none, so that it holds on
each. The bytes of one layout are the business of the tests in its folder of `tests/engine/layouts/`, which are
collected in sessions on that layout alone.
"""

from __future__ import annotations

import os
from typing import Final

from engine.layouts import DEFAULT_LAYOUT, LAYOUTS, make_layout, records
from engine.layouts.layout import Form, Kind, Layout
from engine.model import ZSET
from engine.tables.system import Home
from tests.layouts.hashed import Hashed

LAYOUTS[Hashed.name] = Hashed

VARIABLE: Final = "SLOTLOG_TEST_LAYOUT"
"""Says the layout to the processes of the tests that a test starts, and to `python -m tests.simulation`."""

SETTING: Final = "SLOTLOG_LAYOUT"
"""Says it to the services and verbs that a test starts, which know the layouts of the product alone."""

OF_FIELD_TIMES: Final = frozenset(
    b"HEXPIRE HPEXPIRE HEXPIREAT HPEXPIREAT HPERSIST HTTL HPTTL HEXPIRETIME HPEXPIRETIME HSETEX HGETEX".split()
)
"""The commands for fields with a time to live: with another layout than `neokv` they may be refused."""

OF_STREAMS: Final = frozenset(
    b"XACK XACKDEL XADD XAUTOCLAIM XCLAIM XDEL XDELEX XGROUP|CREATE XGROUP|CREATECONSUMER XGROUP|DELCONSUMER "
    b"XGROUP|DESTROY XGROUP|SETID XINFO|CONSUMERS XINFO|GROUPS XINFO|STREAM XLEN XPENDING XRANGE XREAD XREADGROUP "
    b"XREVRANGE XSETID XTRIM".split()
)
"""The commands for streams: with a layout that holds none they may be refused."""

WITH_EARLIER: Final = frozenset({"neokv", "hashed"})
"""The layouts of which `tests.layouts.earlier` makes one with earlier records."""

_chosen = os.environ.get(VARIABLE, DEFAULT_LAYOUT)


def choose(name: str) -> None:
    """Let everything that follows run on the layout `name`: to be called before the first test module is imported."""
    global _chosen  # noqa: PLW0603 - one for the whole process, as constants of test modules are made of it
    _chosen = os.environ[VARIABLE] = name
    if name not in {DEFAULT_LAYOUT, Hashed.name}:
        os.environ[SETTING] = name


def layout_name() -> str:
    """The name of the layout."""
    return _chosen


def folder_of(name: str) -> str:
    """The folder of that layout, beside those of others: of its code, and of the tests of its bytes."""
    return LAYOUTS[name].__module__.split(".")[2]


def holds(form: Form) -> bool:
    """Whether the layout has a place for this form of our own."""
    return form in LAYOUTS[_chosen].forms


def refused_commands() -> frozenset[bytes]:
    """The commands that the layout may refuse, as it has no place for what they write."""
    refused = frozenset[bytes]() if holds(Form.FIELD_TIMES) else OF_FIELD_TIMES
    return refused if holds(Form.STREAMS) else refused | OF_STREAMS


def member_kind() -> Kind:
    """The kind of the records that have the members of sorted sets and their scores."""
    return records.element_kind(layout_of(), ZSET)


def layout_of(partition: int = 0, partitions: int = 1) -> Layout:
    """The layout, bound to a partition."""
    return make_layout(_chosen, partition, partitions)


def column_families() -> tuple[str, ...]:
    """Those that the layout writes to."""
    return records.column_families(LAYOUTS[_chosen])


def home_of(topic: str = "topic", partition: int = 0, partitions: int = 1) -> Home:
    """What a state of this layout is the state of."""
    return Home(topic, partition, partitions, _chosen)
