"""Registers the commands of docs/adding-a-command.md for a whole session of pytest, as a plugin.

    python -m pytest -p tests.docs.example_commands tests/docs/example_checks.py tests/engine/commands

It does what the page says that one does: it adds the functions, and renews what `make docs` writes, in copies of the
files. `test_adding_a_command.py` runs the tests that hold lists of commands in such a session.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

import pytest

import resp.commands  # noqa: F401 - fills both registries
from engine.commands.registry import SPECS
from resp.catalog.server_registry import CONTAINERS, SERVER_SPECS
from slotlog.commands import COMMANDS
from slotlog.shared.signature import Signature
from tests.docs import command_table, generated

PAGE: Final = (Path(__file__).parents[2] / "docs" / "adding-a-command.md").read_text()
_BLOCK: Final = re.compile(r"```python\n(.*?)```", re.DOTALL)
_OF_ENGINE: Final = "engine.commands.example"


@contextmanager
def examples() -> Iterator[dict[str, Any]]:
    """The page's commands, registered meanwhile; what its blocks of code define, by name."""
    tables: tuple[dict[Any, Any], ...] = (SPECS, SERVER_SPECS, CONTAINERS, COMMANDS)
    before = [dict(table) for table in tables]
    subcommands = {name: list(specs) for name, specs in CONTAINERS.items()}
    defined: dict[str, Any] = {"__name__": _OF_ENGINE}
    for block in _BLOCK.findall(PAGE):
        exec(block, defined)  # noqa: S102 - our own page
    for name in SPECS.keys() - before[0].keys():
        signature = {field.name: getattr(SPECS[name], field.name) for field in fields(Signature)}
        COMMANDS[name] = Signature(**signature)
    try:
        yield defined
    finally:
        for table, was in zip(tables, before, strict=True):
            table.clear()
            table.update(was)
        for name, specs in subcommands.items():
            CONTAINERS[name][:] = specs


def pytest_configure(config: pytest.Config) -> None:
    """Register the page's commands until the session ends, and do what `make docs` does, elsewhere."""
    registered = ExitStack()
    registered.enter_context(examples())
    config.add_cleanup(registered.close)
    directory = Path(registered.enter_context(tempfile.TemporaryDirectory()))
    shutil.copytree(generated.DOCS, directory, dirs_exist_ok=True)
    generated.DOCS = directory  # type: ignore[misc]
    command_table.TABLE = directory / "commands.py"  # type: ignore[misc]
    for name in generated.PAGES:
        (directory / name).write_text(generated.renewed(name))
    command_table.TABLE.write_text(command_table.rendered())
