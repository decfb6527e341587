"""Counts the commands that scripts call, for the statistics of a server whose client has sent the script."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import partial


@dataclass(slots=True)
class ScriptCalls:
    """The outcomes of commands that scripts have called.

    Attributes:
        calls: command name -> how often it ran, with an error or without.
        failed: command name -> how often it ran and answered with an error.
        rejected: command name -> how often it was refused before it ran. Scripts may name commands that there are not.
        errors: error code -> how many errors of commands began with it.
    """

    calls: defaultdict[bytes, int] = field(default_factory=partial(defaultdict, int))
    failed: defaultdict[bytes, int] = field(default_factory=partial(defaultdict, int))
    rejected: defaultdict[bytes, int] = field(default_factory=partial(defaultdict, int))
    errors: defaultdict[str, int] = field(default_factory=partial(defaultdict, int))

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
