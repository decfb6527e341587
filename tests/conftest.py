"""Shared by all tests: the fixtures of the real servers, and the settings of Hypothesis."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, settings

from engine import native
from engine.layouts import LAYOUTS
from tests import layouts, left_behind

pytest_plugins = ("tests.real.fixtures", "tests.slotlog.fixtures")

# A service of a test serves no Redis clients unless the test says where: the default port may be anybody's.
os.environ["SLOTLOG_RESP"] = ""

# As the services and verbs that a test starts: tests/python_alone.py.
native.choose(native=os.environ.get("SLOTLOG_NATIVE") != "false")

# No deadline, and no complaint about slow generation: a real server has slow moments, and no test here asserts a time.
# print_blob: a failure prints the line that repeats it on any machine, so no database of examples is kept.
settings.register_profile(
    "slotlog", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow], database=None
)
settings.load_profile("slotlog")

_SHOWN_MAX = 20  # of the violations in the states that a test leaves behind: one damage may make thousands

_OF_ONE_LAYOUT: Final = Path(__file__).parent / "engine" / "layouts"

left_behind.watch()


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--layout`: what the tests of the engine run on.

    It is chosen at once, before the conftest modules of folders are imported, which have constants made of it.
    """
    layout = layouts.layout_name()
    parser.addoption("--layout", choices=sorted(LAYOUTS), default=layout, help="the layout of the tests")
    layouts.choose(parser.parse_known_args(sys.argv[1:]).layout)


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out the folders of `tests/engine/layouts/` that hold the bytes of other layouts.

    And the tests of earlier records, where the tests have no such form of the layout.
    """
    if collection_path == _OF_ONE_LAYOUT / "test_earlier.py" and layouts.layout_name() not in layouts.WITH_EARLIER:
        return True
    folders = {layouts.folder_of(name) for name in LAYOUTS} - {layouts.folder_of(layouts.layout_name())}
    return True if collection_path.parent == _OF_ONE_LAYOUT and collection_path.name in folders else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests of forms that the layout does not hold, and of the bytes of another one.

    And those of what the layout makes differ.
    """
    forms, name, differs = layouts.layout_of().forms, layouts.layout_name(), bool(layouts.layout_of().differences)
    others = [
        item
        for item in items
        if {form for mark in item.iter_markers("form") for form in mark.args} - forms
        or any(name not in mark.args for mark in item.iter_markers("layout"))
        or (differs and item.get_closest_marker("exact"))
    ]
    if others:
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item not in set(others)]


def pytest_collection_finish() -> None:
    """Take what has been loaded out of the collector's sight: it stays, and each full collection would walk over it."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _states_are_sound(request: pytest.FixtureRequest) -> Iterator[None]:
    """After each test: the states that it leaves behind are sound, unless it is marked as one that plants damage."""
    left_behind.forget()
    yield
    if request.node.get_closest_marker("damaging") is None:
        assert [] == left_behind.violations(request.node.funcargs.get("tmp_path"))[:_SHOWN_MAX]
