"""What all tests share: the fixtures of the real servers, and how Hypothesis runs."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests import left_behind

pytest_plugins = ("tests.real.fixtures",)

# A service of a test serves no Redis clients unless the test says where: the default port may be anybody's.
os.environ["SLOTLOG_RESP"] = ""

# No deadline, and no complaint about slow generation: a real server has slow moments, and no test here asserts a time.
# print_blob: a failure prints the line that repeats it on any machine, so no database of examples is kept.
settings.register_profile(
    "slotlog", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow], database=None
)
settings.load_profile("slotlog")

_SHOWN_MAX = 20  # of the violations in the states that a test leaves behind: one damage may make thousands

left_behind.watch()


@pytest.fixture(autouse=True)
def _states_are_sound(request: pytest.FixtureRequest) -> Iterator[None]:
    """After each test: the states that it leaves behind are sound, unless it is marked as one that plants damage."""
    left_behind.forget()
    yield
    if request.node.get_closest_marker("damaging") is None:
        assert [] == left_behind.violations(request.node.funcargs.get("tmp_path"))[:_SHOWN_MAX]
