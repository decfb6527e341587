"""The protocol by which a script runs commands, and the error that no script may handle."""

from __future__ import annotations

from typing import Protocol

from engine.values.replies import Reply


class ScriptHost(Protocol):
    """Runs the commands of one script."""

    def call(self, words: list[bytes]) -> Reply:
        """Run one command as the next step of the script.

        Raises:
            CommandError: it failed; the script sees the text.
        """

    def check_acl(self, words: list[bytes]) -> bool:
        """Whether the script's user may run this command.

        Raises:
            CommandError: there is no such command.
        """

    def log(self, level: int, text: bytes) -> None:
        """Take a line of `redis.log`: level 0 is debug, 3 is warning."""


class ScriptLimitError(Exception):
    """A script needed more than it may have: nothing of it may stay, and its event is a rejection.

    Attributes:
        message: the error reply, such as `ERR script used more than …`.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message
