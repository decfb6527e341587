"""The protocol of a source, which gives keys as events and tells what it leaves out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

Command: TypeAlias = tuple[bytes, list[Any]]
"""Name and arguments of an event; those of EXEC are commands, [name, argument, …]."""

DELETED: Final = "deleted"
"""The type of a key that an earlier run, or pass, has brought and that is no more."""


class SourceError(RuntimeError):
    """A source that cannot be read on; the message says what to do, without a secret."""


class ImportKey(NamedTuple):
    """One key.

    Attributes:
        db: logical database.
        name: the key.
        type: as TYPE answers, for the counts; or DELETED.
        events: made as they are pulled, each within the bounds of an event. The first replaces what is there, so that
            all of them sent again come to the same. They are pulled to their end before the next key is.
        mark: where a second run goes on when this key, and what came before it, is durable; None where `appended` does.
    """

    db: int
    name: bytes
    type: str
    events: Iterable[Command]
    mark: str | None = None


class LeftOut(NamedTuple):
    """Something of the source that does not become events.

    Attributes:
        db: logical database; None for what lies in none, such as a library of functions.
        name: its key or name.
        what: what it is, such as `functions`.
        reason: why, in words.
    """

    db: int | None
    name: bytes
    what: str
    reason: str


class Source(Protocol):
    """Keys from elsewhere. All calls come from one thread, which may block; one at a time."""

    @property
    def identity(self) -> str:
        """What makes it the same source in a second run; no secret in it."""
        ...

    @property
    def label(self) -> str:
        """What users are told that it is; no secret in it."""
        ...

    @property
    def unit(self) -> str:
        """What `total` and `done` count, such as keys or bytes."""
        ...

    @property
    def total(self) -> int | None:
        """How much there is; None where that is not known."""
        ...

    @property
    def done(self) -> int:
        """How much of it is dealt with. Asked from another thread."""
        ...

    def keys(self, mark: str | None) -> Iterator[ImportKey | LeftOut | None]:
        """Everything behind `mark`, which an earlier run has given; None: from the start.

        It gives None where it may take long until there is more: what came before is appended then.

        Raises:
            SourceError, CorruptionError, OSError, ValueError: it cannot be read on. What came before is kept.
        """
        ...

    def appending(self) -> None:
        """What was given is about to be appended."""
        ...

    def appended(self, keys: int) -> None:
        """So many more of the keys that were given are in the log, in their order."""
        ...

    def notes(self) -> Sequence[str]:
        """What users should know at the end, in sentences."""
        ...

    def close(self) -> None:
        """Let go of files and connections."""
        ...


@dataclass(frozen=True, slots=True)
class Options:
    """The options of the verb, for a source.

    Attributes:
        progress: the directory of the import, for what a second run needs; None for a dry run.
        databases: only these; empty: all.
        partitions: of the log: with more than one there is database 0 alone.
        once: read everything once, also where more changes meanwhile.
        layout: of a directory; empty: none was given.
        namespaces: NAME=DATABASE, of a source that has namespaces.
    """

    progress: Path | None
    databases: frozenset[int]
    partitions: int
    once: bool
    layout: str
    namespaces: tuple[str, ...] = ()

    @property
    def selection(self) -> str:
        """The words that choose keys, each behind a blank. A mark of another selection has keys in front of it."""
        words = [*(f"--db {db}" for db in sorted(self.databases)), *(f"--namespace {each}" for each in self.namespaces)]
        return "".join(f" {word}" for word in words)


def public_part(source: str) -> str:
    """How a source is written, without what may be secret in a URL: user, password and options."""
    scheme, separator, rest = source.partition("://")
    if not separator:
        return source
    address, _, options = rest.partition("?")
    if "@" in options:  # the question mark may be a part of the password
        return f"{scheme}://…"
    return f"{scheme}://{address.rpartition('@')[2]}"
