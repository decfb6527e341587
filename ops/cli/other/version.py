"""`slotlog version`."""

from __future__ import annotations

import platform
import sqlite3
from contextlib import suppress
from importlib.metadata import version as version_of
from importlib.util import find_spec
from pathlib import Path

import typer

from engine import native
from engine.tables.system import FORMAT, RULES
from ops.cli.options import Json, print_json, reports_errors
from ops.config import ConfigError, load_settings
from ops.version import VERSION


def print_version(wanted: bool) -> None:
    """The option `--version`: one line, and the end."""
    if wanted:
        print(f"slotlog {VERSION}")
        raise typer.Exit


@reports_errors
def version(*, json: Json = False) -> None:
    """Print the versions of slotlog, of its rules and format, and of its libraries.

    Example: slotlog version --json
    """
    with suppress(ConfigError):  # whoever looks for what is wrong may begin here
        load_settings()
    facts = {
        "slotlog": VERSION,
        "rules": RULES,
        "format": FORMAT,
        "python": platform.python_version(),
        "rocksdict": version_of("rocksdict"),
        "aiokafka": version_of("aiokafka"),
        "sqlite": sqlite3.sqlite_version,
        "hot_path": _hot_path(),
    }
    if json:
        print_json(facts)
    else:
        print("\n".join(f"{name:<10} {fact}" for name, fact in facts.items()))


def _hot_path() -> str:
    """What applies usual events."""
    hot = native.chosen()
    if hot is not None:
        return (
            "compiled, older than its source: make install"
            if any(is_older_than_source(Path(library)) for library in (str(hot.__file__), *_libraries_of_logs()))
            else "compiled"
        )
    if native.IS_BUILT and not native.FITS:
        return "Python, as what is compiled is of another version: make install"
    return "Python, as native is false" if native.IS_BUILT else "Python, as it was installed without a C compiler"


def _libraries_of_logs() -> list[str]:
    """What is compiled of the client library, found without a load of it."""
    found = find_spec("slotlog.log.kafka._batches")
    return [found.origin] if found is not None and found.origin is not None else []


def is_older_than_source(library: Path) -> bool:
    """Whether C beside a compiled library was changed since: in a checkout, as an installed one has none beside it."""
    sources = [*library.parent.glob("*.c"), *library.parent.glob("*.h")]
    return any(source.stat().st_mtime_ns > library.stat().st_mtime_ns for source in sources)
