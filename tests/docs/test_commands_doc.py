"""docs/commands.md: nothing of Valkey is forgotten, and every command says what it costs."""

from __future__ import annotations

from collections import Counter
from contextlib import closing

import resp.commands  # noqa: F401 - fills both registries
from engine.commands.registry import SPECS, Spec
from resp.catalog.descriptions import catalog
from resp.catalog.server_registry import SERVER_SPECS, ServerSpec
from tests.docs.missing import VALKEY_COMMANDS, missing_commands
from tests.real.oracle import Oracle


def test_the_list_of_commands_is_the_oracles(oracle_server: Oracle) -> None:
    """The committed list is what COMMAND LIST of a real server says."""
    with closing(oracle_server.connect()) as connection:
        names = {name.decode() for name in connection.call("COMMAND", "LIST")}

    assert names == VALKEY_COMMANDS


def test_every_command_is_there_or_has_a_reason_not_to_be() -> None:
    """Each command and subcommand of Valkey is either supported or in the table of missing ones, and in it once."""
    entries = catalog().values()
    supported = Counter({each.name for entry in entries for each in (entry, *entry.subcommands)} & VALKEY_COMMANDS)

    assert Counter(VALKEY_COMMANDS) == supported + Counter(missing_commands())


def test_every_command_says_what_it_costs() -> None:
    """Each has a complexity, an O(…) unless it depends on something else."""
    specs: list[Spec | ServerSpec] = [*SPECS.values(), *SERVER_SPECS.values()]

    assert [] == [spec.name for spec in specs if not spec.complexity.startswith(("O(", "depends on ", "as "))]
