"""Tests of the commands of docs/adding-a-command.md, in a session in which they are registered.

pytest collects this file when it is named: see `tests.docs.example_commands`.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engine.commands.registry import SPECS
from engine.values.replies import Reply
from resp.acl.access import key_access
from resp.catalog.categories import categories_of
from resp.catalog.plans import CommandKind, Plans
from resp.catalog.server_registry import SERVER_SPECS
from slotlog.producer import prepare
from slotlog.shared.slots import partition_of, slot
from tests.resp.harness import pipeline, serving
from tests.resp.messages.test_notifications import commands_of, told_by_us


def command(name: str, *args: str) -> Any:
    """The reply of a subcommand of COMMAND, which asks nothing of its client."""
    handler: Any = SERVER_SPECS[f"COMMAND|{name}".encode()].handler
    reply: Reply = handler(SimpleNamespace(), [arg.encode() for arg in args])
    return reply


@pytest.mark.parametrize(
    ("name", "arity", "flags", "categories"),
    [
        ("alive", -2, [b"readonly", b"fast"], [b"@keyspace", b"@read", b"@fast"]),
        ("setmax", 3, [b"write", b"denyoom", b"fast"], [b"@write", b"@string", b"@fast"]),
        ("slotlog|owned", 2, [b"loading", b"fast"], [b"@fast", b"@connection"]),
    ],
)
def test_info(name: str, arity: int, flags: list[bytes], categories: list[bytes]) -> None:
    """COMMAND INFO tells arity, flags and categories."""
    (info,) = command("INFO", name)

    assert [name.encode(), arity, flags] == info[:3]
    assert categories == info[6]


def test_docs() -> None:
    """COMMAND DOCS has summary, release and arguments of all three."""
    found = dict(command("DOCS", "alive", "setmax", "slotlog|owned"))
    said = {name: dict(fields) for name, fields in found.items()}

    assert b"slotlog 1" == said[b"alive"][b"since"] == said[b"setmax"][b"since"] == said[b"slotlog|owned"][b"since"]
    assert said[b"setmax"][b"summary"].startswith(b"Raise the integer")
    assert [b"key", b"integer"] == [dict(argument)[b"name"] for argument in said[b"setmax"][b"arguments"]]


def test_keys() -> None:
    """COMMAND GETKEYS, the ACL and the producer know the keys, and what is done to them."""
    assert [b"a", b"b"] == command("GETKEYS", "alive", "a", "b")
    assert [[b"a", [b"RW", b"access", b"update"]]] == command("GETKEYSANDFLAGS", "setmax", "a", "1")
    assert (("", ""), ("RW", "RW")) == (key_access(b"ALIVE", []), key_access(b"SETMAX", []))
    (entry,) = prepare(4, "SETMAX", ["high", "7"])
    assert partition_of(slot(b"high"), 4) == entry.partition


def test_categories() -> None:
    """ACL CAT lists them."""
    assert {"keyspace", "read", "fast"} == categories_of(b"ALIVE")
    assert {"string", "write", "fast"} == categories_of(b"SETMAX")
    assert {"fast", "connection"} == categories_of(b"SLOTLOG|OWNED")


def test_keyspace_events() -> None:
    """SETMAX is told as a string's event, and only where it changed something."""
    told = [
        [message[3] for message in some[::2]] for some in told_by_us(commands_of("SETMAX a 7|SETMAX a 5|SETMAX a 9"))
    ]

    assert [[b"new", b"setmax"], [], [b"setmax"]] == told


def test_kinds() -> None:
    """A server reads the one, appends the other, and runs the third itself."""
    plans = Plans()

    assert [CommandKind.READ, CommandKind.WRITE, CommandKind.SERVER] == [
        plans.by_name[name].kind for name in (b"ALIVE", b"SETMAX", b"SLOTLOG|OWNED")
    ]
    assert SPECS[b"SETMAX"].changes_data


async def test_they_run(tmp_path: Path) -> None:
    """A client sends them to a server: alone, in MULTI, and as SLOTLOG ONCE."""
    async with serving(tmp_path, partitions=2) as live:
        client = await live.client()
        got = await pipeline(
            client,
            *("SETMAX high 7", "setmax high 5", "ALIVE high", "SLOTLOG OWNED", "SLOTLOG ONCE x SETMAX high 9"),
            *("MULTI", "ALIVE high high", "SETMAX high 10", "SLOTLOG OWNED", "EXEC"),
        )

        assert [7, 7, 1, [0, 1], 9] == got[:5]
        assert [2, 10, [0, 1]] == got[-1]
