"""CLUSTER GETKEYSINSLOT and COUNTKEYSINSLOT find what other commands find, on every layout."""

from __future__ import annotations

from pathlib import Path

from slotlog.shared.slots import slot
from tests.resp.harness import pipeline, serving


async def test_a_key_without_elements_is_in_no_slot(tmp_path: Path) -> None:
    """It is neither counted nor named, also where the layout keeps its metadata record; a key that has some is."""
    number = slot(b"k")
    made = [f"HSET {{k}}{name} f v g w" for name in ("emptied", "kept")] + [
        f"SADD {{k}}{name} m" for name in ("s", "t")
    ]
    made.append("ZADD {k}z 1 m")
    emptied = ["HDEL {k}emptied f g", "HDEL {k}kept g", "SREM {k}s m"]
    asked = [f"CLUSTER GETKEYSINSLOT {number} 9", f"CLUSTER COUNTKEYSINSLOT {number}", "EXISTS {k}emptied {k}s"]
    async with serving(tmp_path, partitions=2) as live:
        replies = await pipeline(await live.client(), *made, *emptied, *asked)

    names, count, existing = replies[-3:]
    assert ([b"{k}kept", b"{k}t", b"{k}z"], 3, 0) == (sorted(names), count, existing)
