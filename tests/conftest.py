"""What all tests share: the fixtures of the real servers, and how Hypothesis runs."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

pytest_plugins = ("tests.real.fixtures",)

# No deadline, and no complaint about slow generation: a real server has slow moments, and no test here asserts a time.
# print_blob: a failure prints the line that repeats it on any machine, so no database of examples is kept.
settings.register_profile(
    "slotlog", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow], database=None
)
settings.load_profile("slotlog")
