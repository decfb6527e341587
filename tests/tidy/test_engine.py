"""The engine is deterministic: nothing in it can tell the time, draw a number, or see the machine."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

from tests.tidy.determinism import SHARED, violations
from tests.tidy.source import EVERYTHING, ROOT, imported_names, modules

# The files that open RocksDB, that with its options, and the one that looks at its directory: I/O by their nature, and
# they decide nothing.
# The Lua state is made in one file, whose program lies beside it.
# The registry of layouts finds modules, once, in an order that does not depend on the disk; a state names its layout.
STORES = {"engine.store.rocks", "engine.store.plain"}
OPTIONS = "engine.store.options"
LUA = {"engine.scripts.runtime"}
LUA_FILES = {"engine.scripts.sources", "engine.scripts.libraries"}
ALLOWED = {
    **dict.fromkeys(STORES, ("imports rocksdict", "imports pathlib")),
    "engine.store.directory": ("imports pathlib",),
    "engine.store.gathering": ("imports pathlib",),
    OPTIONS: ("imports rocksdict",),
    **dict.fromkeys(LUA, ("imports lupa",)),
    **dict.fromkeys(LUA_FILES, ("imports pkgutil",)),
    "engine.layouts": ("imports importlib", "imports pkgutil"),
}


def test_engine_is_deterministic() -> None:
    """No module of the engine reaches a clock, randomness, the network, threads or the environment, or walks a set.

    Nor does one that it shares with clients.
    """
    found = [
        f"{module.place}:{violation}"
        for module in modules("engine", "slotlog")
        if module.name.startswith(("engine", SHARED))
        for violation in violations(module.tree)
        if not violation.endswith(ALLOWED.get(module.name, ()))
    ]

    assert [] == found


def test_engine_loads_no_client() -> None:
    """A program that imports the engine has loaded nothing of the client library but what the two share."""
    program = "import sys, engine.cleaning, engine.commands, engine.proof.digest; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())

    assert "slotlog.shared.errors" in loaded
    assert [] == [name for name in loaded if name.startswith("slotlog.") and not f"{name}.".startswith(SHARED)]
    assert set() == loaded & {"aiokafka", "asyncio", "logging", "msgpack", "socket", "sqlite3", "structlog"}


def test_two_files_open_rocksdb() -> None:
    """Only two files of engine/store, which know the traps of rocksdict, import it, and that with the options of one.

    Benchmarks of the bare one may.
    """
    importers = {
        module.name
        for module in modules(*EVERYTHING)
        if "rocksdict" in imported_names(module.tree) and not module.name.startswith(("benchmarks.", "tests."))
    }

    assert {*STORES, OPTIONS} == importers


def test_one_file_makes_a_lua_state() -> None:
    """Only one file of engine/scripts, which keeps scripts in their sandbox, imports lupa."""
    importers = {
        module.name
        for module in modules(*EVERYTHING)
        if "lupa" in imported_names(module.tree) and not module.name.startswith("tests.")
    }

    assert LUA == importers


@pytest.mark.parametrize(
    "planted",
    [
        "import time",
        "from os import environ",
        "import asyncio.events",
        "import threading, re",
        "def f():\n    import random",
        "from slotlog import clock",
        "from slotlog.clock import WALL",
        "from slotlog.shared_by_nobody import that",
        "math.log(2)",
        "from math import pow",
        "hash(b'')",
        "id(x)",
        "open('f')",
        "for x in {1, 2}: pass",
        "[x for x in set(y)]",
        "list(frozenset(y))",
        "b''.join({a for a in b})",
        "f(*{1, 2})",
        "for x in set(a) | b: pass",
        "a: set[bytes] = f()\nfor x in a: pass",
        "a: Final[frozenset[bytes]] = f()\nnext(iter(a))",
        "def f(dirty: set[bytes] | None): return list(dirty)",
        "self.dirty = set()\nself.dirty.pop()",
        "for x in a.union(b): pass",
    ],
)
def test_planted_mistakes_are_found(planted: str) -> None:
    """Each kind of mistake is seen: a check that finds nothing has to be one that could."""
    assert [] != list(violations(ast.parse(planted)))


@pytest.mark.parametrize(
    "innocent",
    [
        "import struct\nfrom collections.abc import Set",
        "from engine.errors import CommandError",
        "from slotlog.shared.errors import EventError",
        "math.isnan(x) or x == math.inf",
        "for x in sorted({1, 2}): pass",
        "len(set(y)) != len(y)",
        "a: set[bytes] = set()\nif x in a: a.add(x)",
        "items.pop()\nitems.pop(0)",
        "for x in dict.fromkeys(y): pass",
        "self.hash(b'')",
    ],
)
def test_innocent_code_is_let_through(innocent: str) -> None:
    """What does not depend on order or machine is not called a mistake."""
    assert [] == list(violations(ast.parse(innocent)))
