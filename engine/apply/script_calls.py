"""Counts the commands that scripts call, and lets them be measured, for a server whose client has sent the script."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple, Protocol

_DENIALS_KEPT: Final = 128
_KEPT_BYTES: Final = 1024


class CallTimer(Protocol):
    """Measures the commands that scripts call. What it measures is the server's affair: the engine has no clock."""

    def begin(self) -> float:
        """A command begins. Returns what `end` is to be given."""
        ...

    def end(self, began: float, words: list[bytes]) -> None:
        """It has run, or failed; `words` are its name and arguments."""
        ...


class ScriptDenial(NamedTuple):
    """One refusal by the rights of a script's user.

    Attributes:
        offset: of the script's event.
        user: whose rights.
        reason: `command`, `key`, `channel` or `database`.
        denied: which one; of a long one the beginning.
    """

    offset: int
    user: bytes
    reason: str
    denied: bytes


@dataclass(slots=True)
class ScriptCalls:
    """The outcomes of commands that scripts have called.

    Attributes:
        calls: command name -> how often it ran, with an error or without.
        failed: command name -> how often it ran and answered with an error.
        rejected: command name -> how often it was refused before it ran. Scripts may name commands that there are not.
        errors: error code -> how many errors of commands began with it.
        denied: `command`, `key`, `channel` or `database` -> how often rights have refused one.
        denials: the newest kinds of these -> how often.
    """

    calls: defaultdict[bytes, int] = field(default_factory=partial(defaultdict, int))
    failed: defaultdict[bytes, int] = field(default_factory=partial(defaultdict, int))
    rejected: defaultdict[bytes, int] = field(default_factory=partial(defaultdict, int))
    errors: defaultdict[str, int] = field(default_factory=partial(defaultdict, int))
    denied: defaultdict[str, int] = field(default_factory=partial(defaultdict, int))
    denials: dict[ScriptDenial, int] = field(default_factory=dict)

    def note_denial(self, offset: int, user: bytes, reason: str, denied: bytes) -> None:
        """Count what the rights of a user have refused: see `ScriptDenial`. `note_error` counts its error."""
        self.denied[reason] += 1
        denial = ScriptDenial(offset, user, reason, denied[:_KEPT_BYTES])
        self.denials[denial] = self.denials.pop(denial, 0) + 1
        if len(self.denials) > _DENIALS_KEPT:
            del self.denials[next(iter(self.denials))]

    def note_error(self, name: bytes, message: str, *, has_run: bool) -> None:
        """Count a command that ended with an error.

        Args:
            name: of the command.
            message: of the error, beginning with its code.
            has_run: False: it was refused.
        """
        if has_run:
            self.calls[name] += 1
            self.failed[name] += 1
        else:
            self.rejected[name] += 1
        self.errors[message.partition(" ")[0]] += 1
