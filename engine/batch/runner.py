"""The way from a command that is a script to what runs it, which stands above the commands."""

from __future__ import annotations

from typing import Any, Final, NamedTuple, Protocol

from engine.errors import CommandError
from engine.values.replies import Reply


class Call(NamedTuple):
    """One run of a script, or of a function.

    Attributes:
        sha: SHA-1 of the whole source, in lower-case hexadecimal.
        body: Lua, without the first line that begins with `#!`.
        keys, args: `KEYS` and `ARGV`.
        reads_only: it may not write.
        one_slot: the keys that its commands name have to be in one slot, in a topic of several partitions.
        function: its name, as it was registered; `body` is its library. Empty: this is a script.
        may_grow: it may call commands that need more memory before it has called one that writes.
    """

    sha: bytes
    body: bytes
    keys: list[bytes]
    args: list[bytes]
    reads_only: bool
    one_slot: bool
    function: bytes = b""
    may_grow: bool = True


class Runner(Protocol):
    """Runs the scripts of one partition.

    Attributes:
        clustered: whether there are other partitions.
        rights: of the user whose script runs; None: everything is allowed.
        memory_is_full: the server that sent it had no more memory to be used then.
    """

    clustered: bool
    rights: Any
    memory_is_full: bool

    @property
    def runs_event(self) -> bool:
        """Whether a script that is an event runs now: what it reads must be the same at every replay."""

    def check(self, sha: bytes, body: bytes) -> None:
        """Refuse a script that does not compile.

        Raises:
            CommandError: with the place and the problem.
        """

    def functions_of(self, sha: bytes, body: bytes) -> list[tuple[bytes, bytes | None, int]]:
        """What the code of a library registers: name, description and flags of each function.

        Raises:
            CommandError: it does not compile, fails, or needs more than it may.
        """

    def remember(self, sha: bytes, source: bytes) -> None:
        """Keep the source of a read on the server, which changes no state, for the reads behind it."""

    def remembered(self, sha: bytes) -> bytes | None:
        """A source that a read on the server has brought; for an event, which must not depend on it, none."""

    def forget_reads(self) -> None:
        """Forget the sources that reads on the server have brought."""

    def run(self, call: Call) -> Reply:
        """Run a script for the record at hand, or for a read.

        Raises:
            CommandError: it failed; what it wrote before stays.
            ScriptAgainError: all since the last commit has to be thrown away, and the record applied again.
        """


class _NoRunner:
    """The runner of a transaction that applies no records."""

    clustered = False
    rights: Any = None
    memory_is_full = False

    @property
    def runs_event(self) -> bool:
        """None runs."""
        return False

    def check(self, sha: bytes, body: bytes) -> None:
        """Refuse it."""
        raise CommandError("ERR no scripts run here")

    def functions_of(self, sha: bytes, body: bytes) -> list[tuple[bytes, bytes | None, int]]:
        """Refuse it."""
        raise CommandError("ERR no scripts run here")

    def remember(self, sha: bytes, source: bytes) -> None:
        """It is not kept."""

    def remembered(self, sha: bytes) -> bytes | None:
        """None is kept."""
        return None

    def forget_reads(self) -> None:
        """There are none."""

    def run(self, call: Call) -> Reply:
        """Refuse it."""
        raise CommandError("ERR no scripts run here")


NO_RUNNER: Final[Runner] = _NoRunner()
