"""The sequences of `tests.differential` as requests on the wire, and a look at everything that they left behind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from engine.commands.registry import SPECS
from tests.differential.strategy import Command, FieldLapse, Lapse, Step, rendered
from tests.wire.duel import DifferenceError, Sides, Tally, compare_pipeline
from tests.wire.exceptions import Request
from tests.wire.frames import bulk, parts

DATABASES: Final = 2
_EVERYTHING: Final = [b"COUNT", b"100000"]
_READS: Final[dict[bytes, tuple[bytes, ...]]] = {
    b"+string\r\n": (b"GET",),
    b"+list\r\n": (b"LRANGE", b"0", b"-1"),
    b"+set\r\n": (b"SMEMBERS",),
    b"+hash\r\n": (b"HGETALL",),
    b"+zset\r\n": (b"ZRANGE", b"0", b"-1", b"WITHSCORES"),
}
"""By the reply to TYPE: what to read the key with; the key comes after the first word."""


def run(sides: Sides, steps: Sequence[Step], tally: Tally, *, in_listpacks: bool) -> None:
    """Empty both sides, run the steps and compare replies, then what is there.

    Raises:
        DifferenceError: in a reply or in the contents.
    """
    requests = [request for place, step in enumerate(steps) for request in _requests(place, step)]
    compare_pipeline(sides, [(b"FLUSHALL",), *requests], tally, in_listpacks=in_listpacks)
    words = sorted({word for request in requests for word in request})
    for db in range(DATABASES):
        try:
            _compare_contents(sides, db, words, tally, in_listpacks)
        except DifferenceError as difference:
            raise DifferenceError(f"afterwards in database {db}: {difference}") from None


def _requests(place: int, step: Step) -> Iterator[Request]:
    yield (b"SELECT", b"%d" % step.db)
    what = step.what
    if isinstance(what, Command):
        yield _request(what, place)
    elif isinstance(what, Lapse):
        yield (b"PEXPIREAT", what.key, b"1")
    elif isinstance(what, FieldLapse):
        yield (b"HPEXPIREAT", what.key, b"1", b"FIELDS", b"1", what.field)
    else:
        yield (b"MULTI",)
        yield from (_request(command, place) for command in what.commands)
        yield (b"EXEC",)


def _request(command: Command, place: int) -> Request:
    """As it is sent. A scan is to be through with one call, since no two servers have the same cursors."""
    name, args = command.name, rendered(command.args, place)
    spec = SPECS.get(name.upper())
    if spec is not None and name.upper().endswith(b"SCAN") and len(args) >= spec.arguments_min:
        args += _EVERYTHING
    return (*(name.split(b"|") if spec else [name]), *args)


def _compare_contents(sides: Sides, db: int, words: Iterable[bytes], tally: Tally, in_listpacks: bool) -> None:
    """Whatever word of the requests is a key there: its type, content and expire time; of a hash its fields' too."""
    select: list[Request] = [(b"SELECT", b"%d" % db), (b"DBSIZE",)]
    asked = [*select, *((b"TYPE", word) for word in words)]
    types = compare_pipeline(sides, asked, tally, in_listpacks=in_listpacks)
    reads: list[Request] = []
    for (_, key), kind in zip(asked[2:], types[2:], strict=True):
        if kind in _READS:
            command, *options = _READS[kind]
            reads += [(command, key, *options), (b"PEXPIRETIME", key)]
    replies = compare_pipeline(sides, [*select[:1], *reads], tally, in_listpacks=in_listpacks)
    times: list[Request] = []
    for request, reply in zip(reads, replies[1:], strict=True):
        if request[0] == b"HGETALL":
            fields = [bulk(field) or b"" for field in parts(reply)[::2]]
            times.append((b"HPEXPIRETIME", request[1], b"FIELDS", b"%d" % len(fields), *fields))
    compare_pipeline(sides, [*select[:1], *times], tally, in_listpacks=in_listpacks)
