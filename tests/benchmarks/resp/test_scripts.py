"""The benchmark of scripts runs, and prints what it should."""

from __future__ import annotations

import json

from benchmarks.resp.scripts import SCRIPTS_SMOKE, run_scripts


async def test_every_row_runs() -> None:
    """One call, a thousand, and the memory of kept scripts, of both servers, with the ratios to the plain command."""
    lines = {line["name"]: line async for result in run_scripts(SCRIPTS_SMOKE) for line in [json.loads(result.line())]}

    figures = {name: {field for field in line if not field.startswith("valkey_")} for name, line in lines.items()}
    one_call = {"name", "us", "eval_us", "evalsha_us", "eval_ratio", "evalsha_ratio"}
    assert figures == {
        "script_set": one_call | {"fcall_us", "fcall_ratio"},
        "script_get": one_call | {"ro_us", "ro_ratio"},
        "script_calls": {"name", "us", "script_us", "script_ratio"},
        "script_memory": {"name", "eval_kib", "load_kib"},
    }
    for line in lines.values():
        ours = {field for field in line if not field.startswith("valkey_")} - {"name"}
        assert {f"valkey_{field}" for field in ours} == line.keys() - ours - {"name"}
    assert all(value > 0 for name, line in lines.items() for field, value in line.items() if field.endswith("us"))
