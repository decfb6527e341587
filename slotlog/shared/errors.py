"""The errors that a client and the engine both raise about an event, and the texts of Redis in them."""

from __future__ import annotations


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
