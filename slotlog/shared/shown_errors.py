"""Texts of exceptions that are safe to show to others than the sender.

Python and its libraries quote what they stumble over: a key, a value. Our own texts do not, but for those of a
`QuotingError`, which are meant for whoever sent the command or the event. `shown_error` is for what others read: log
lines, `/readyz`, replies to other clients.
"""

from __future__ import annotations

from typing import Final

from slotlog.shared.errors import QuotingError

_OURS: Final = frozenset({"engine", "ingest", "ops", "resp", "slotlog"})
_STATUSES: Final = (
    "Corruption",
    "IO error",
    "Invalid argument",
    "Operation aborted",
    "Operation timed out",
    "Resource busy",
    "Shutdown in progress",
)
"""How the texts of RocksDB begin, all of which rocksdict raises as `Exception`."""


def is_shown(error: BaseException) -> bool:
    """Whether the text of an exception may be shown: it is ours, an assertion's, the system's, or RocksDB's."""
    if isinstance(error, QuotingError):
        return False
    kind = type(error)
    if isinstance(error, OSError | AssertionError) or kind.__module__.partition(".")[0] in _OURS:
        return True
    return kind is Exception and str(error).startswith(_STATUSES)


def shown_error(error: BaseException) -> str:
    """The text of an exception; where it may repeat a key or a value, its class and the line that raised it."""
    return str(error) if is_shown(error) else _whereabouts(error)


def named_error(error: BaseException) -> str:
    """The same, with the name of its class before the text; RocksDB's begin with their own."""
    if not is_shown(error):
        return _whereabouts(error)
    return str(error) if type(error) is Exception else f"{type(error).__name__}: {error}"


def _whereabouts(error: BaseException) -> str:
    """Such as `KeyError in engine.types.sets, line 65`."""
    name, trace = type(error).__name__, error.__traceback__
    if trace is None:
        return name
    while trace.tb_next is not None:
        trace = trace.tb_next
    return f"{name} in {trace.tb_frame.f_globals.get('__name__')}, line {trace.tb_lineno}"
