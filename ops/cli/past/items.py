"""Keys, scripts and libraries that two states do not have alike, and their values, for people and for JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from engine.proof.digest import KEY, LIBRARY_TYPE, SCRIPT_TYPE, Item
from ops.cli.reply_text import as_text, quoted
from ops.reply_json import bytes_as_json

if TYPE_CHECKING:
    from ops.past.history import Value

_SHOWN_MAX: Final = 200
_KINDS: Final = {KEY: "key", SCRIPT_TYPE: "script", LIBRARY_TYPE: "library"}


def item_text(item: Item) -> str:
    """The name of it."""
    db, name, kind = item
    if kind == KEY:
        return quoted(name) + (f" in database {db}" if db else "")
    return f"script {name.hex()}" if kind == SCRIPT_TYPE else f"library {name.decode(errors='replace')}"


def item_facts(item: Item) -> dict[str, Any]:
    """The name of it, for JSON: of a script its SHA-1."""
    db, name, kind = item
    return {"kind": _KINDS[kind], "db": db, "key": name.hex() if kind == SCRIPT_TYPE else bytes_as_json(name)}


def value_text(value: Value) -> str:
    """A key at one moment, on one line."""
    if value.type == b"none":
        return "(nil)"
    expires = f"  expires at {value.expire_ms} ms" if value.expire_ms >= 0 else ""
    return cut(f"{value.type.decode()}  {'; '.join(as_text(value.content).splitlines())}") + expires


def command_text(command: tuple[Any, ...]) -> str:
    """A command with its arguments, on one line; each command of a transaction stands in brackets."""
    name, *args = command
    shown = [f"[{command_text(tuple(each))}]" if isinstance(each, list) else quoted(each) for each in args]
    return " ".join([name.decode(errors="replace"), *shown])


def cut(text: str) -> str:
    """No more than the first characters of a long text."""
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…"
