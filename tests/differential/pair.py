"""One sequence on both sides: the engine, batch by batch, then the oracle, then replies and contents side by side.

Where the two cannot be compared byte by byte:

    draws, cursors    and what depends on memory: see `tests.differential.loose`
    unordered types   their replies are sorted on both sides
    relative times    the oracle's clock is the wall's: times to live, and OBJECT IDLETIME, may differ by SPREAD_S
    DBSIZE            the engine counts keys that are due and not cleaned up yet: they are subtracted
    open replies      a negative offset in LIMIT, and BYLEX over different scores: compared in the small encodings alone
    score -0          the oracle's large sorted sets keep its sign, its small ones and the engine do not
    another version   Redis 7.4 has other words than the oracle: see `tests.differential.versions`
    dead letters      a wrong arity has Redis' text; of an unknown command both sides must only refuse it
    the layout        what it declares to make differ, and nothing else: see `tests.layouts.differences`
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from engine.apply.machine import Machine, Record
from engine.batch.keys.object_encoding import DEFAULT_KNOBS
from engine.commands.options import read_option
from engine.commands.registry import SPECS
from engine.errors import CommandError
from engine.store.store import Store
from engine.values.replies import NIL_ARRAY, Reply
from slotlog.events import decode, encode
from slotlog.shared.errors import EventError
from tests.consistency import problems
from tests.differential import loose
from tests.differential.cleaning import Slices, check_uncleaned
from tests.differential.contents import of_engine, of_oracle, unfound
from tests.differential.strategy import Command, FieldLapse, Lapse, Step, Transaction, rendered
from tests.differential.streams import untimed, with_their_lag
from tests.differential.versions import are_rounded, is_of_redis
from tests.differential.vocabulary import EXACT_FROM_MS, EXACT_UNTIL_MS, SPREAD_S
from tests.differential.wire import RESP2, wire
from tests.layouts import differences, home_of, layout_of
from tests.real.oracle import Connection, ErrorReply, MapReply, SetReply

HOME: Final = home_of("differential", 0, 1)

_SORTED: Final = frozenset({b"SMEMBERS", b"SINTER", b"SUNION", b"SDIFF", b"HKEYS", b"HVALS"})
_SORTED_PAIRS: Final = frozenset({b"HGETALL"})
_TIMES_MS: Final = {
    b"TTL": 1000,
    b"PTTL": 1,
    b"EXPIRETIME": 1000,
    b"PEXPIRETIME": 1,
    b"HTTL": 1000,
    b"HPTTL": 1,
    b"HEXPIRETIME": 1000,
    b"HPEXPIRETIME": 1,
    b"OBJECT|IDLETIME": 1000,
}
_MOMENTS: Final = frozenset({b"EXPIRETIME", b"PEXPIRETIME", b"HEXPIRETIME", b"HPEXPIRETIME"})
_WRONG_ARITY: Final = "ERR wrong number of arguments"

Outcome = Reply | EventError
Request = list[bytes]


class Tally(NamedTuple):
    """How often each command failed, found nothing, or did something."""

    errors: Counter[bytes]
    empty: Counter[bytes]
    full: Counter[bytes]

    def add(self, name: bytes, outcome: Outcome) -> None:
        """Count one outcome."""
        if isinstance(outcome, CommandError | EventError):
            self.errors[name] += 1
        elif (
            outcome is None or outcome is NIL_ARRAY or (not isinstance(outcome, float) and outcome in (0, -2, b"", []))
        ):
            self.empty[name] += 1
        else:
            self.full[name] += 1


def new_tally() -> Tally:
    """Nothing counted yet."""
    return Tally(Counter(), Counter(), Counter())


class Oracles(NamedTuple):
    """Two connections to one oracle."""

    resp2: Connection
    resp3: Connection


class Pair:
    """An empty engine and an empty oracle.

    Args:
        protocol: of the connection whose replies are compared, `wire.RESP2` or `wire.RESP3`.
        tally: counts what became of the commands.
        in_listpacks: the oracle holds its collections in their small encodings, else in their large ones.
        cleaned: the engine's state is cleaned up in slices between the commands, which must change nothing.
    """

    def __init__(
        self, store: Store, oracles: Oracles, protocol: int, tally: Tally, *, in_listpacks: bool, cleaned: bool
    ) -> None:
        self._store = store
        self._machine = Machine(store, HOME, verify=True, key_cache_bytes=64 * 1024)
        self._slices = Slices(self._machine, store) if cleaned else None
        self._applied: list[Record] = []
        self._oracles = oracles
        self._protocol = protocol
        self._in_listpacks = in_listpacks
        self._tally = tally
        self._machine._tx.knobs = {**DEFAULT_KNOBS, **_listpack_limits(in_listpacks)}
        seconds, micros = oracles.resp2.pipeline([["FLUSHALL"], encodings(in_listpacks), ["TIME"]])[2]
        self._now_ms = int(seconds) * 1000 + int(micros) // 1000
        self._offset = 0
        self._places: dict[int, int | None] = {}
        self._pending: list[Record] = []
        self._outcomes: dict[int, Outcome] = {}
        self._is_told = False  # how many entries a group of a stream has read

    def run(self, steps: Sequence[Step]) -> None:
        """Run `steps` on both sides.

        Raises:
            AssertionError: a reply or the contents at the end differ.
        """
        steps = _settled(steps)
        for place, step in enumerate(steps):
            self._engine_step(place, step)
            if self._slices is not None and self._slices.is_time(place):
                self._flush(commit=True)
                self._slices.clean(place)
        self._flush(commit=True)
        requests = [self._requests(place, step) for place, step in enumerate(steps)]
        oracle = self._oracles.resp2 if self._protocol == RESP2 else self._oracles.resp3
        replies = iter(oracle.pipeline([request for group in requests for request in group]))
        for place, (step, group) in enumerate(zip(steps, requests, strict=True)):
            self._compare(place, step, group, [next(replies) for _ in group])
        assert [] == problems(self._store)
        assert of_oracle(self._oracles.resp2) == of_engine(self._store, layout_of(), self._machine.clock_ms)
        if self._slices is not None:
            check_uncleaned(self._machine, self._store, self._applied)

    # ------------------------------------------------------------------------------------------------------ the engine

    def _engine_step(self, place: int, step: Step) -> None:
        what = step.what
        if isinstance(what, Lapse):
            self._event(place, step.db, b"PEXPIREAT", [what.key, b"%d" % (self._now_ms + 1)])
            self._now_ms += 2
            self._event(None, step.db, b"TICK", [])
        elif isinstance(what, FieldLapse):
            words = [b"FIELDS", b"1", what.field]
            self._event(place, step.db, b"HPEXPIREAT", [what.key, b"%d" % (self._now_ms + 1), *words])
            self._now_ms += 2
            self._event(None, step.db, b"TICK", [])
        elif isinstance(what, Transaction):
            commands = [[command.name, *rendered(command.args, place)] for command in what.commands]
            self._event(place, step.db, b"EXEC", commands)
        elif what.name.upper() in SPECS and SPECS[what.name.upper()].physical:
            self._flush(commit=True)
            self._outcomes[place] = self._read(what.name, rendered(what.args, place), step.db)
        elif what.direct:
            self._flush(commit=False)
            self._outcomes[place] = self._read(what.name, rendered(what.args, place), step.db)
        else:
            self._event(place, step.db, what.name, rendered(what.args, place))
        if step.after:
            self._flush(commit=step.after > 1)

    def _event(self, place: int | None, db: int, name: bytes, args: Sequence[Any]) -> None:
        """Add a record to the batch; its outcome is the one of the step at `place`."""
        self._offset += 1
        self._places[self._offset] = place
        self._pending.append(decode(self._offset, self._now_ms, encode(name, args, db=db)))

    def _flush(self, *, commit: bool) -> None:
        machine = self._machine
        records, self._pending = self._pending, []
        self._applied += records
        while records:
            applied = machine.apply(records, machine.next_offset, waiting=self._places)
            refused = {offset: EventError(reason) for offset, reason in applied.dead_letters}
            for offset, outcome in {**applied.outcomes, **refused}.items():
                place = self._places[offset]
                if place is not None:
                    self._outcomes[place] = outcome
            records = records[applied.records :]
        if commit:
            machine.commit(b"fingerprint")

    def _read(self, name: bytes, args: list[bytes], db: int) -> Outcome:
        try:
            reply = self._machine.read(name, args, db)
        except (CommandError, EventError) as error:
            return error
        if name.upper() == b"DBSIZE":
            reply -= unfound(self._store, layout_of(), self._machine.clock_ms)[db]
        return loose.complete(name.upper(), args, reply, lambda args: self._machine.read(name, args, db))

    # ------------------------------------------------------------------------------------------------------ the oracle

    def _requests(self, place: int, step: Step) -> list[Request]:
        """What to send for a step, given what the engine's outcome of it was."""
        what = step.what
        select: Request = [b"SELECT", b"%d" % step.db]
        if isinstance(what, Lapse):
            return [select, [b"DEL", what.key]]
        if isinstance(what, FieldLapse):
            words = [b"FIELDS", b"1", what.field]
            # First one to come, which makes a hashtable of the hash.
            times_ms = (b"%d" % EXACT_FROM_MS, b"1")
            return [select, *([b"HPEXPIREAT", what.key, time_ms, *words] for time_ms in times_ms)]
        outcome = self._outcomes[place]
        if isinstance(what, Command):
            return [select, *_of_command(what, rendered(what.args, place), outcome)]
        inner = outcome if isinstance(outcome, list) else [None] * len(what.commands)
        requests: list[Request] = []
        for command, reply in zip(what.commands, inner, strict=True):
            requests += _of_command(command, rendered(command.args, place), reply)
        return [select, [b"MULTI"], *requests, [b"EXEC"]]

    # -------------------------------------------------------------------------------------------------------- the same

    def _compare(self, place: int, step: Step, requests: list[Request], replies: list[Any]) -> None:
        what = step.what
        outcome = self._outcomes[place]
        if isinstance(what, Command):
            self._compare_one(place, what, outcome, requests[1:], replies[1:])
        elif isinstance(what, Lapse):
            assert replies[1] == wire(outcome, self._protocol), f"{place}: {what}"
        elif isinstance(what, FieldLapse):
            expected = [1] if replies[2] == [2] else replies[2]  # deleted at once there
            assert expected == wire(outcome, self._protocol), f"{place}: {what}"
        elif isinstance(outcome, EventError):
            first = next(reply for reply in replies if isinstance(reply, ErrorReply))
            _check_refusal(place, what, outcome, first)
            assert isinstance(replies[-1], ErrorReply), f"{place}: {what}"
        else:
            assert isinstance(replies[-1], list), f"{place}: {what} {replies}"
            assert isinstance(outcome, list), f"{place}: {what} {outcome}"
            self._compare_inner(place, what, outcome, requests[2:-1], replies[-1])

    def _compare_inner(
        self, place: int, what: Transaction, outcome: list[Any], requests: list[Request], replies: list[Any]
    ) -> None:
        at = 0
        for command, reply in zip(what.commands, outcome, strict=True):
            count = len(_of_command(command, rendered(command.args, place), reply))
            self._compare_one(place, command, reply, requests[at : at + count], replies[at : at + count])
            at += count

    def _compare_one(
        self, place: int, command: Command, outcome: Outcome, requests: list[Request], replies: list[Any]
    ) -> None:
        name, args = command.name.upper(), rendered(command.args, place)
        self._is_told |= any(word.upper() == b"ENTRIESREAD" for word in args)
        existed = 1
        if before := len(differences.asked_before(name, args)):
            existed, requests, replies = replies[0], requests[before:], replies[before:]
        if name in SPECS:
            self._tally.add(name, outcome)
        if isinstance(outcome, EventError):
            _check_refusal(place, command, outcome, replies[0])
            return
        actual = wire(outcome, self._protocol)
        where = f"{place}: {requests[0]}"
        if loose.is_loose(name, outcome):
            assert loose.holds(name, args, outcome, replies), f"{where}: {outcome} and {replies}"
        elif name in _TIMES_MS and isinstance(actual, int | list) and isinstance(replies[0], type(actual)):
            assert _same_times(name, replies[0], actual), f"{where}: {replies[0]} != {actual}"
        elif not is_of_redis(requests[0], _shown(replies[0]), _shown(actual)):
            expected, actual = untimed(name, replies[0]), untimed(name, actual)
            actual = with_their_lag(expected, actual, is_told=self._is_told)
            expected, actual = _ordered(name, requests[0], expected), _ordered(name, requests[0], actual)
            if not self._in_listpacks and name in SPECS and SPECS[name].group == "sorted-set":
                if _is_open(requests[0]):
                    return
                expected, actual = _without_minus_zero(expected), _without_minus_zero(actual)
            allowed = differences.replies(name, args, expected, existed)
            assert actual in allowed, f"{where}\n  oracle: {' or '.join(map(repr, allowed))}\n  engine: {actual!r}"


def _shown(reply: Any) -> bytes:
    """An error as it is on the wire; of anything else that it is none."""
    return b"-%b\r\n" % reply.text if isinstance(reply, ErrorReply) else b""


def encodings(in_listpacks: bool) -> list[bytes | str | float]:
    """The CONFIG SET that makes the oracle hold every collection in its small encoding, or in its large one."""
    words = [word for limit in _listpack_limits(in_listpacks).items() for word in limit]
    return ["CONFIG", "SET", *words]


def _listpack_limits(in_listpacks: bool) -> dict[str, int]:
    limit = 1 << 20 if in_listpacks else 0
    names = [f"{kind}-max-listpack-{unit}" for kind in ("hash", "set", "zset") for unit in ("entries", "value")]
    return {**dict.fromkeys(names, limit), "list-max-listpack-size": -5 if in_listpacks else 1}


def _of_command(command: Command, args: list[bytes], outcome: Outcome) -> list[Request]:
    return differences.asked_before(command.name, args) + loose.requests(command.name, args, outcome)


def _settled(steps: Sequence[Step]) -> list[Step]:
    """The steps, and between them what keeps the times to live of both sides the same (`differences.Settling`)."""
    settling, settled = differences.Settling(), []
    for step in steps:
        what = step.what
        following = _following(what.commands if isinstance(what, Transaction) else [what], settling)
        if isinstance(what, Transaction):
            settled.append(step._replace(what=Transaction(tuple(following))))
        else:
            settled += [Step(each, step.db, step.after) for each in following]
    return settled


def _following(commands: Sequence[Any], settling: differences.Settling) -> list[Any]:
    """Each of them and what has to follow it."""
    found: list[Any] = []
    for command in commands:
        found.append(command)
        if isinstance(command, Command) and (after := settling.after(command.name, command.args)):
            found.append(Command(*after))
    return found


def _check_refusal(place: int, what: Command | Transaction, outcome: EventError, reply: Any) -> None:
    """A dead letter is an error of the oracle, in the same words where they are Redis'."""
    assert isinstance(reply, ErrorReply), (
        f"{place}: {what} is refused with {outcome.reason}, not by the oracle: {reply}"
    )
    if outcome.reason.startswith(_WRONG_ARITY) or reply.text.startswith(_WRONG_ARITY.encode()):
        assert reply.text.decode() == outcome.reason, f"{place}: {what}"


def _same_times(name: bytes, expected: Any, actual: Any) -> bool:
    """One time, or one for each field of a hash."""
    if isinstance(actual, int):
        return _same_time(name, expected, actual)
    return len(expected) == len(actual) and all(map(partial(_same_time, name), expected, actual))


def _same_time(name: bytes, expected: int, actual: int) -> bool:
    """Equal, or both relative to two clocks that are not quite the same."""
    unit_ms = _TIMES_MS[name]
    exact = name in _MOMENTS and EXACT_FROM_MS <= actual * unit_ms < EXACT_UNTIL_MS
    if expected < 0 or actual < 0 or exact:
        return expected == actual or are_rounded(name, expected, actual)
    return abs(expected - actual) * unit_ms <= SPREAD_S * 1000


def _ordered(name: bytes, request: Request, reply: Any) -> Any:
    """The reply with its parts in order, where the command gives them in none."""
    if isinstance(reply, SetReply):
        return SetReply(sorted(reply.members))
    if isinstance(reply, MapReply):
        return MapReply(sorted(reply.pairs))
    if name in _SORTED and isinstance(reply, list):
        return sorted(reply)
    if name in _SORTED_PAIRS and isinstance(reply, list):
        return sorted(zip(reply[::2], reply[1::2], strict=True))
    return loose.in_order(name, request, reply)


def _is_open(request: Request) -> bool:
    """Redis answers this for a large sorted set in one way and for a small one, as the engine does, in another."""
    words = [read_option(word) for word in request]
    by_member = any(b"LEX" in word for word in words)  # of different scores: the order is open
    return by_member or (b"LIMIT" in words and words[words.index(b"LIMIT") :][1:2] < [b"0"])


def _without_minus_zero(reply: Any) -> Any:
    """The oracle's large sorted sets keep the sign of a zero score, its small ones and the engine do not."""
    if isinstance(reply, list):
        return [_without_minus_zero(element) for element in reply]
    return b"0" if reply == b"-0" else reply
