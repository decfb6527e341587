"""The protocol by which a script runs commands, and the error that no script may handle."""

from __future__ import annotations

from typing import Protocol

from engine.values.replies import Reply


class ScriptHost(Protocol):
    """Runs the commands of one script."""

    @property
    def seed(self) -> int:
        """Of `math.random`, the same at every replay: 32 bits. Few scripts ask for it."""
        ...

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

    def pause(self) -> bytes | None:
        """Let others have their turn. It is called every 0.1 ms.

        Returns:
            The text of the error with which the script ends now; None: it goes on.
        """


class ScriptLimitError(Exception):
    """A script needed more than it may have: nothing of it may stay, and its event is a rejection.

    Attributes:
        message: the error reply, such as `ERR the script was rolled back: …`.
        memory: the limit was the memory of a runtime that other scripts have used. Only a fresh one tells.
    """

    def __init__(self, message: str, *, memory: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.memory = memory
