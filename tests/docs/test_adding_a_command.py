"""`docs/adding-a-command.md` is true: its command works as the page says, and the names that it mentions exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.batch.key import Key, Subkeys
from engine.batch.transaction import Transaction
from engine.commands.registry import SPECS, Spec
from tests.engine.harness import NOW_MS, new_store, open_machine, send

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "adding-a-command.md").read_text()


@pytest.fixture
def alive() -> Iterator[Spec]:
    """The page's command, registered for the time of a test."""
    names: dict[str, Any] = {}
    exec(PAGE.partition("```python\n")[2].partition("```")[0], names)  # noqa: S102 - our own page
    try:
        yield SPECS[b"ALIVE"]
    finally:
        del SPECS[b"ALIVE"]


def test_spec_follows_from_the_usage_line(alive: Spec) -> None:
    """The page's table of what follows from the decorator is what the registry makes of it."""
    assert (alive.arguments_min, alive.arguments_max > 1_000_000) == (1, True)
    assert alive.keys([b"a", b"b", b"c"]) == [b"a", b"b", b"c"]
    assert alive.write is False
    assert alive.summary.startswith("How many of the keys are there;")


def test_command_works(alive: Spec) -> None:
    """The page's command counts the keys that are alive: an absent one and an expired one do not count."""
    machine = open_machine(new_store())
    send(machine, "SET a 1", "HSET gone field value", "PEXPIREAT gone 1700000000500")

    assert send(machine, "ALIVE a b a gone", "ALIVE") == [3, "ERR wrong number of arguments for 'alive' command"]
    assert send(machine, "ALIVE a b a gone", at_ms=NOW_MS + 500) == [2]
    assert machine.read(b"alive", [b"a"]) == 1


def test_names_exist() -> None:
    """Every method and file that the page names is there."""
    methods = re.findall(r"`tx\.(\w+)", PAGE)
    paths = re.findall(r"`((?:engine|tests)/[\w/]+\.(?:py|md))`", PAGE)
    assert methods
    assert paths

    assert [name for name in methods if name != "now_ms" and not hasattr(Transaction, name)] == []
    assert [path for path in paths if not (ROOT / path).exists()] == []
    assert {"data", "scores"} <= set(Key.__slots__)
    assert [name for name in ("get", "put", "remove", "scan") if not hasattr(Subkeys, name)] == []
