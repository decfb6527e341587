"""`docs/adding-a-command.md` is true: its commands work, no test has to be changed for them, and its names exist."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from engine.batch.keys.key import Key
from engine.batch.overlaid import Subkeys
from engine.batch.transaction import Transaction
from engine.commands.registry import SPECS, Spec
from tests.docs.example_commands import PAGE, examples
from tests.engine.harness import NOW_MS, new_store, open_machine, send

ROOT = Path(__file__).parents[2]


META_TESTS: Final = (
    "tests/docs/example_checks.py",
    "tests/docs/test_commands_doc.py",
    "tests/docs/test_generated.py",
    "tests/engine/commands/test_registry.py",
    "tests/engine/commands/test_transcripts.py",
    "tests/differential/test_harness.py",
    "tests/ops/state/rebuilding/test_replay_everything.py",
    "tests/resp/acl/test_categories.py",
    "tests/resp/commands/server/test_introspection.py",
    "tests/resp/messages/test_notifications.py",
    "tests/resp/messages/test_pubsub.py::test_what_a_subscriber_may_send",
)
"""The tests that hold lists of commands against something, and those that the examples pass alone."""

TOO_LONG: Final = "not planted and not cleaning and not two_replays and not random"
"""Leaves out what says nothing of lists of commands and takes long."""


@pytest.fixture
def alive() -> Iterator[Spec]:
    """The page's first command, registered for the time of a test."""
    with examples():
        yield SPECS[b"ALIVE"]


def test_commands_are_added_without_touching_a_test() -> None:
    """With the page's commands registered for the whole session, every test passes that holds lists of commands."""
    options = ["-q", "-p", "tests.docs.example_commands", "-k", TOO_LONG]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *META_TESTS], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert 0 == done.returncode, done.stdout


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
    paths = re.findall(r"`((?:engine|resp|slotlog|tests)/[\w/]+\.(?:py|md))`", PAGE)
    assert methods
    assert paths

    assert [name for name in methods if name != "now_ms" and not hasattr(Transaction, name)] == []
    assert [path for path in paths if not (ROOT / path).exists()] == []
    assert {"data", "scores"} <= set(Key.__slots__)
    assert [name for name in ("get", "put", "remove", "scan") if not hasattr(Subkeys, name)] == []
