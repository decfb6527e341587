"""`docs/events.md` is true: every block of bytes, table and piece of code on that page is run."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest

from slotlog.events import decode
from slotlog.shared import limits
from slotlog.shared.slots import partition_of, slot

PAGE = (Path(__file__).parents[2] / "docs" / "events.md").read_text()


def blocks(kind: str) -> list[dict[str, str]]:
    """The fenced blocks of one kind, each as a map of its field names to the text, continuation lines joined."""
    found = re.findall(rf"^```{kind}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    assert found
    return [dict(re.findall(r"^(\w+) +(.*?)(?=^\w|\Z)", text, re.DOTALL | re.MULTILINE)) for text in found]


def argument(value: Any) -> Any:
    """An argument of a JSON line as the engine sees it."""
    if isinstance(value, list):
        return [argument(each) for each in value]
    return base64.b64decode(value["base64"]) if isinstance(value, dict) else value.encode()


@pytest.mark.parametrize("block", blocks("event"), ids=lambda block: json.loads(block["json"])["cmd"])
def test_event(block: dict[str, str]) -> None:
    """The bytes decode to the event of the block's JSON line, and the record key is the slot of its first key."""
    event = json.loads(block["json"])
    arguments = [argument(each) for each in event["args"]]
    event_id = event.get("id")

    assert decode(7, 1_000, bytes.fromhex(block["value"])) == (
        7,
        1_000,
        event["cmd"].encode(),
        arguments,
        event.get("db", 0),
        None if event_id is None else event_id.encode(),
        None,
    )
    if block["key"].strip() != "none":
        first = arguments[0][1] if event["cmd"] == "EXEC" else arguments[0]
        assert bytes.fromhex(block["key"]) == slot(first).to_bytes(2, "big")


@pytest.mark.parametrize("block", blocks("refused"), ids=lambda block: block["reason"].strip())
def test_refused(block: dict[str, str]) -> None:
    """The bytes are refused with the reason that the page gives."""
    name, args = decode(7, 1_000, bytes.fromhex(block["value"]))[2:4]

    assert (name, args) == (b"", [block["reason"].strip().encode()])


def test_byte_by_byte() -> None:
    """The table that takes the first example apart has its bytes, in order."""
    table = PAGE.partition("byte by byte")[2].partition("```")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    taken_apart = bytes.fromhex("".join(re.findall(r"`([^`]*)`", "".join(rows))))

    assert taken_apart == bytes.fromhex(blocks("event")[0]["value"])


def test_python_example() -> None:
    """The Python code of the page makes the first example, and its slot function agrees with the engine's."""
    code = PAGE.partition("```python\n")[2].partition("```")[0]
    names: dict[str, Any] = {}
    exec(code, names)  # noqa: S102 - our own page

    first = blocks("event")[0]
    assert names["value"] == bytes.fromhex(first["value"])
    assert names["record_key"] == bytes.fromhex(first["key"])
    assert names["partition"] == partition_of(slot(b"greeting"), names["partitions"])
    for key in (b"", b"a", b"{a}b", b"{}a", b"a{", b"a{b", b"}{b}", b"{{b}}", b"{a}{b}"):
        assert names["slot"](key) == slot(key)


def test_slot_table() -> None:
    """Each row of the table of slots has the slot, record key and partitions that the engine computes."""
    rows = re.findall(r"^\| `(\S+)` \| (\d+) \| `([0-9a-f ]+)` \| (\d+) \| (\d+) \| (\d+) \|$", PAGE, re.MULTILINE)
    assert len(rows) == 7

    for key, number, record_key, *partitions in rows:
        expected = slot(key.encode())
        assert int(number) == expected
        assert bytes.fromhex(record_key) == expected.to_bytes(2, "big")
        assert [int(each) for each in partitions] == [partition_of(expected, count) for count in (1, 4, 12)]


def test_limits_table() -> None:
    """The limits of the page are the engine's."""
    for limit in (
        f"| record | {limits.RECORD_BYTES_MAX:,} bytes |",
        f"| nesting of arrays and maps | {limits.NESTING_MAX} (",
        f"| arguments of an event | {limits.ARGUMENTS_MAX:,} |",
        f"| `id` | {limits.ID_BYTES_MAX} bytes |",
        f"| timestamp | 0 to {limits.TIME_MS_MAX:,} ms since 1970 |",
    ):
        assert limit in PAGE
