"""Errors that client and engine both raise, the texts of Redis in them, and a base that pickle carries."""

from __future__ import annotations

from typing import Any


class PicklableError(Exception):
    """An error that `pickle` carries to another process as it is, with its text and attributes.

    It is a base for those that are not made from their text alone: Python would make them anew from that.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (type(self), self.args), self.__dict__


def _unpickled(kind: type[PicklableError], args: tuple[Any, ...]) -> PicklableError:
    """An error with its `args`, which hold its text, and without its `__init__`. Its attributes come behind."""
    return kind.__new__(kind, *args)


class QuotingError(Exception):
    """Its text may repeat what a client or a service has sent, so it is meant for the sender alone."""


class EventError(QuotingError):
    """A record that can never be applied: it goes to the dead letters with `reason`."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class InvariantError(Exception):
    """A bug of ours: a batch that cannot be right, found before it was written. The text names no key."""


CROSS_SLOT = "CROSSSLOT Keys in request don't hash to the same slot"


def unknown_command(name: bytes) -> str:
    """The text for a command that is not there. Redis repeats its arguments as well; they may be secrets."""
    shown = name.partition(b"\0")[0][:128].decode(errors="backslashreplace")
    return f"ERR unknown command '{shown}'".replace("\r", " ").replace("\n", " ")


def wrong_arity(name: str) -> str:
    """The text for a wrong number of arguments of the command `name` (lower case)."""
    return f"ERR wrong number of arguments for '{name}' command"
