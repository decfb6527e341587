"""The page's table of snapshots, in a real browser."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Final

from tests.ops.serving.pages.test_page import UNDER_WAY, append, incr, looking, serving
from tests.ops.verbs import get, succeed, wait_for_offset

KEPT: Final = """
    Array.from(document.querySelectorAll('#snapshots tbody tr'), (row) =>
        Array.from(row.cells, (cell) => cell.textContent.trim()))
"""


async def test_snapshots_are_shown(tmp_path: Path) -> None:
    """Of each partition the newest snapshot, what a trim frees and what is under way; no table without a store."""
    data, store = tmp_path / "data", tmp_path / "store"
    await append(data, incr(0, 40) + incr(1, 3))
    with serving(data) as service:
        await asyncio.to_thread(wait_for_offset, service, 40, 0)
        without = [each["snapshots"] for each in get(service, "/status").json["partitions"]]
    said = {
        "SLOTLOG_SNAPSHOTS__URL": str(store),
        "SLOTLOG_SNAPSHOTS__EVENTS": "30",
        "SLOTLOG_IDENTITY_CHECK_SECONDS": "0.1",
    }
    with serving(data, 0, **said) as service:
        async with looking(service, tmp_path) as tab:
            await tab.wait_until("document.querySelector('#snapshots tbody').textContent.includes('39 records')")
            before = await tab.evaluate(KEPT)
            await asyncio.to_thread(succeed, "trim", "--from", store, "--data", data, "--topic", "board", "--own", "0")
            await tab.wait_until("document.querySelector('#snapshots tbody').textContent.includes('0 records')")
            after = await tab.evaluate(KEPT)
            log = await tab.evaluate("document.querySelector('#tile-log small').textContent")
            await tab.evaluate(UNDER_WAY)
            await tab.wait_until("document.querySelector('#snapshots tbody').textContent.includes('being uploaded')")
            planted = await tab.evaluate(KEPT)
            bars = await tab.evaluate("Array.from(document.querySelectorAll('#snapshots progress'), (b) => b.position)")
            complaints = list(tab.complaints)

    assert [None, None] == without
    assert [["0", "verified", "40"], ["1", "none", "\u2013"]] == [row[:3] for row in before]
    assert re.fullmatch(r"\d+ s|\d min", before[0][3])
    assert [["0", "39 records", ""], ["0", "\u2013", ""]] == [row[4:] for row in before]
    assert (["39", "0 records", ""], "cut behind snapshots") == (after[0][4:], log)
    assert ["being restored: 3.0 MiB of 12.0 MiB, 9 s left", "being uploaded: 1.0 MiB of 4.0 MiB"] == [
        row[6] for row in planted
    ]
    assert "none, failing" == planted[1][1]
    assert ([0.25, 0.25], []) == (bars, complaints)
