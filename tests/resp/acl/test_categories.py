"""Categories and what commands do to keys, held against the oracle, command by command."""

from __future__ import annotations

from typing import Any

import pytest

import engine.commands  # noqa: F401 - fills the registry
import resp.commands  # noqa: F401 - fills the registry
from engine.commands.registry import SPECS
from resp.acl.access import key_access
from resp.catalog.categories import CATEGORIES, categories_of, command_names, is_command
from tests.real.oracle import Connection


def oracle_commands(oracle: Connection) -> dict[str, Any]:
    """COMMAND INFO of every command and subcommand of the oracle, by upper-case name."""
    found: dict[str, Any] = {}
    waiting = list(oracle.call("COMMAND"))
    while waiting:
        info = waiting.pop()
        found[info[0].decode().upper()] = info
        waiting.extend(info[9])
    return found


def access_letters(flags: list[Any]) -> str:
    """The two letters of a key specification's flags."""
    words = {flag.text for flag in flags}
    reads = "R" if b"access" in words else ""
    return reads + ("W" if words & {b"insert", b"update", b"delete"} else "")


def test_the_list_of_categories_is_the_oracles(oracle: Connection) -> None:
    """ACL CAT lists the same names in the same order."""
    assert [category.encode() for category in CATEGORIES] == oracle.call("ACL", "CAT")


@pytest.mark.parametrize("category", CATEGORIES)
def test_a_category_has_the_same_commands_as_in_the_oracle(oracle: Connection, category: str) -> None:
    """Of the commands that both servers have, the same ones are in each category."""
    theirs = oracle_commands(oracle)
    both = [name for name in command_names() if name.decode() in theirs]
    listed = {name.decode().upper() for name in oracle.call("ACL", "CAT", category)}

    ours = sorted(name.decode() for name in both if category in categories_of(name))

    assert ours == sorted(listed & {name.decode() for name in both})


def test_every_command_is_fast_or_slow() -> None:
    """A command without a category could be in no rule but its own name's."""
    assert [name for name in command_names() if len(categories_of(name) & {"fast", "slow"}) != 1] == []


def test_events_of_the_servers_own_are_no_commands() -> None:
    """No rule can name TICK, which only slotlog appends; SELECT, which is an event too, is a command."""
    assert [is_command(name) for name in (b"TICK", b"RULES", b"SELECT", b"GET", b"NONE")] == [
        False,
        False,
        True,
        True,
        False,
    ]


def test_what_a_command_does_to_its_keys_is_what_the_oracle_says(oracle: Connection) -> None:
    """For the first key and the others: read, written, both or neither. Variable ones have a test of their own."""
    theirs = oracle_commands(oracle)
    expected, actual = {}, {}
    for name, spec in SPECS.items():
        info = theirs.get(name.decode())
        if info is None or spec.keyless or not info[8]:
            continue
        specs = [dict(zip(found[::2], found[1::2], strict=True))[b"flags"] for found in info[8]]
        if any(flag.text == b"variable_flags" for flags in specs for flag in flags):
            continue
        expected[name] = (access_letters(specs[0]), access_letters(specs[-1]))
        actual[name] = key_access(name, [])

    assert actual == expected
