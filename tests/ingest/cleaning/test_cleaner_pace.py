"""The cleaner learns from its past slices how much fits into one."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.layouts.layout import Form
from ingest.cleaning.chores import Pace
from tests.ingest.cleaning.test_cleaner import running


@pytest.mark.form(Form.FIELD_TIMES)
async def test_a_hash_that_goes_whole_is_one_unit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many fields it had: else slices would be thought cheap, and grow until they hold up the event loop."""
    noted: list[int] = []
    monkeypatch.setattr(Pace, "note", lambda _, units, seconds: noted.append(units))
    fields = " ".join(f"f{n} v" for n in range(50))
    async with running(tmp_path) as one:
        await one.apply(*(f"HSETEX h{n} PX 10 FIELDS 50 {fields}" for n in range(4)), time_ms=1000)
        await one.apply("HSET alive a 1", "HSETEX alive PX 10 FIELDS 2 b 1 c 1", time_ms=1000)
        await one.apply("SET kept v", time_ms=2000)
        while not one.cleaner.job(0) or one.records("expiry"):
            one.cleaner.clean_some(0.01)

    assert 4 + 2 == sum(noted)
    assert (0, 202) == (one.heard.total("keys"), one.heard.total("fields"))
