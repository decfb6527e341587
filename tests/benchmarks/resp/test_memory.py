"""The benchmark of resident memory runs, and prints what it should."""

from __future__ import annotations

import json

from benchmarks.resp.memory import AIMS_MB, MEMORY_SMOKE, run_memory
from benchmarks.results.memory import memory


async def test_both_lines_come_and_have_their_table() -> None:
    """Idle beside valkey-server, and after a soak, each beside its aim; a run without them has no table."""
    lines = {line["name"]: line async for result in run_memory(MEMORY_SMOKE) for line in [json.loads(result.line())]}

    assert AIMS_MB == {name: line["aim_mb"] for name, line in lines.items()}
    assert all(line[field] > 0 for line in lines.values() for field in line if field.endswith("_mb"))
    *_, again, soaked = [row for row in memory(lines).splitlines() if row.startswith("| ")]
    assert again.startswith("| started again with 1,000 small keys | ")
    assert [" 82 ", " 163 "] == [row.split("|")[3] for row in (again, soaked)]
    assert memory({}) == ""
