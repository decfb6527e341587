"""A ledger of clients' writes and their replies, checked against the server's content afterwards.

Every write leaves a mark of its own, so that it can be looked for by itself:

    RPUSH list "<mark>,"     the reply is the length: the element must stand right there
    APPEND string "<mark>,"  the reply is the length: the mark must end right there
    INCR counter             the reply is the count: no two clients may be told the same one

Every other write is a script that runs the command.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Any, Final, NamedTuple

from tests.real.oracle import Connection, ErrorReply

KINDS: Final = ("INCR", "APPEND", "RPUSH")


class Outcome(Enum):
    """What a client knows of its write."""

    ACKNOWLEDGED = "acknowledged"
    FAILED = "failed"
    UNKNOWN = "unknown"


class Write(NamedTuple):
    """One write; marks and keys are free of commas. `line` is the connection, `number` its place on it."""

    line: int
    number: int
    kind: str
    key: bytes

    @property
    def mark(self) -> bytes:
        """What it leaves behind."""
        return b"%d.%d" % (self.line, self.number)

    @property
    def command(self) -> list[bytes | str | float]:
        """As a client sends it; every other one as a script."""
        words = [self.key] if self.kind == "INCR" else [self.key, self.mark + b","]
        return (
            ["EVAL", f"return redis.call('{self.kind}', KEYS[1], unpack(ARGV))", 1, *words]
            if self.number % 2
            else [self.kind, *words]
        )


class Entry(NamedTuple):
    """A write and what became of it. `reply` is the count or length of an acknowledged one, the text of an error."""

    write: Write
    outcome: Outcome
    reply: int | bytes


class Ledger:
    """All writes of one run, those of each connection in their order."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.counts: Counter[Outcome] = Counter()

    def add(self, write: Write, reply: Any) -> None:
        """Note the reply to a write; None: the connection ended without one.

        Raises:
            AssertionError: a reply that no such command has.
        """
        if reply is None:
            entry = Entry(write, Outcome.UNKNOWN, b"")
        elif isinstance(reply, ErrorReply):
            unknown = reply.text.startswith(b"UNKNOWNOUTCOME ")
            entry = Entry(write, Outcome.UNKNOWN if unknown else Outcome.FAILED, reply.text)
        else:
            assert isinstance(reply, int), f"{write.command}: {reply}"
            entry = Entry(write, Outcome.ACKNOWLEDGED, reply)
        self.entries.append(entry)
        self.counts[entry.outcome] += 1

    def errors(self) -> Counter[bytes]:
        """How often each error text came."""
        return Counter(entry.reply for entry in self.entries if isinstance(entry.reply, bytes) and entry.reply)

    def problems(self, connection: Connection) -> list[str]:
        """Everything that is lost, there twice, there though it failed, or not where its reply said."""
        found: list[str] = []
        by_key: dict[tuple[bytes, str], list[Entry]] = {}
        for entry in self.entries:
            by_key.setdefault((entry.write.key, entry.write.kind), []).append(entry)
        for (key, kind), entries in sorted(by_key.items()):
            checked = _check_counter if kind == "INCR" else _check_marks
            found += [
                f"{kind} {key.decode()}: {problem}" for problem in checked(_content(connection, kind, key), entries)
            ]
        return found

    def holes(self, connection: Connection) -> list[str]:
        """Writes that are there although an earlier one of their connection is not."""
        there = {
            mark
            for key, kind in sorted({(entry.write.key, entry.write.kind) for entry in self.entries})
            if kind != "INCR"
            for mark in _marks(_content(connection, kind, key))
        }
        missing: dict[int, bytes] = {}
        found = []
        for entry in self.entries:
            write = entry.write
            if write.kind != "INCR" and write.mark not in there:
                missing.setdefault(write.line, write.mark)
            elif write.kind != "INCR" and write.line in missing:
                found.append(f"{write.mark.decode()} is there, {missing[write.line].decode()} before it is not")
        return found


def _content(connection: Connection, kind: str, key: bytes) -> bytes:
    """The whole content as text: a list's elements joined."""
    if kind == "RPUSH":
        return b"".join(connection.call("LRANGE", key, 0, -1))
    return connection.call("GET", key) or b""


def _marks(content: bytes) -> list[bytes]:
    return content.split(b",")[:-1]


def _check_counter(content: bytes, entries: Sequence[Entry]) -> Iterator[str]:
    count = int(content or b"0")
    told = Counter(entry.reply for entry in entries if entry.outcome is Outcome.ACKNOWLEDGED)
    unknown = sum(entry.outcome is Outcome.UNKNOWN for entry in entries)
    yield from (f"{reply!r} was the reply to {times} clients" for reply, times in told.items() if times > 1)
    yield from (f"{reply!r} was a reply, but the count is {count}" for reply in told if not 1 <= int(reply) <= count)
    if not told.total() <= count <= told.total() + unknown:
        yield f"the count is {count}: {told.total()} were acknowledged and {unknown} are unknown"


def _check_marks(content: bytes, entries: Sequence[Entry]) -> Iterator[str]:
    marks = _marks(content)
    times = Counter(marks)
    ends = _ends(content, entries[0].write.kind)
    for write, outcome, reply in entries:
        there = times.pop(write.mark, 0)
        if there > 1:
            yield f"{write.mark.decode()} is there {there} times"
        if outcome is Outcome.FAILED and there:
            yield f"{write.mark.decode()} is there, but was answered {reply!r}"
        if outcome is Outcome.ACKNOWLEDGED and ends.get(reply) != write.mark:
            yield f"{write.mark.decode()} was acknowledged at {reply!r}: {ends.get(reply)!r} is there, it {there} times"
    yield from (f"{mark.decode()} is nobody's write" for mark in times)
    yield from _disorder(marks)


def _ends(content: bytes, kind: str) -> dict[int | bytes, bytes]:
    """The mark that ends at each length, of a list in elements, of a string in bytes."""
    ends: dict[int | bytes, bytes] = {}
    length = 0
    for mark in _marks(content):
        length += 1 if kind == "RPUSH" else len(mark) + 1
        ends[length] = mark
    return ends


def _disorder(marks: Sequence[bytes]) -> Iterator[str]:
    """Marks of one connection that stand before earlier ones of it."""
    last: dict[bytes, int] = {}
    for mark in marks:
        line, _, number = mark.partition(b".")
        if int(number) < last.get(line, -1):
            yield f"{mark.decode()} stands after {line.decode()}.{last[line]}"
        last[line] = int(number)
