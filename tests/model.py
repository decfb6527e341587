"""A plain model of the state: dicts, lists and log time. It shares only the digest's definition with the engine.

What must hold after any crash, retry or replay is that the engine's digest is the model's, which has applied each event
once, in order. So the model knows only the commands and options that the tests send, and only whether a command is
rejected, not what it replies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any, Final

from engine.model import HASH, LIST, SET, STREAM, STRING, ZSET
from engine.proof.digest import Digest, combine, digest_of_items, key_digest
from engine.values.encoding import pack_u64
from slotlog.shared.limits import TIME_MS_MAX
from tests import model_more, model_streams, scripted
from tests.model_base import Entry, Moment, RejectedError
from tests.model_scripts import Libraries, Scripts

_INT_MIN: Final = -(1 << 63)
_INT_MAX: Final = (1 << 63) - 1


class Model:
    """One partition.

    Attributes:
        clock_ms: the highest time of a record so far, or since it was set back.
        applied, rejected, duplicates: how many commands or events were what.
        scripts, libraries: those that are stored.
    """

    def __init__(self) -> None:
        self.clock_ms = 0
        self.applied = 0
        self.rejected = 0
        self.duplicates = 0
        self._keys: dict[tuple[int, bytes], Entry] = {}
        self._remembered: dict[bytes, list[Moment]] = {}
        self._db = 0
        self.scripts = Scripts()
        self.libraries = Libraries()

    def pass_by(self, time_ms: int) -> None:
        """A record that is not applied, such as a dead letter: its time counts all the same, when it is a time."""
        if 0 <= time_ms <= TIME_MS_MAX:
            self.clock_ms = max(self.clock_ms, time_ms)

    def apply(self, time_ms: int, name: bytes, args: Sequence[Any], db: int = 0, event_id: bytes | None = None) -> None:
        """Apply one event; for EXEC, `args` are its commands as lists.

        Raises:
            KeyError: a command that the model does not know.
        """
        self.pass_by(time_ms)
        self._db = db
        if event_id is not None:
            moments = self._remembered.setdefault(event_id, [])
            if any(moment.is_known(self.clock_ms) for moment in moments):
                self.duplicates += 1
                return
            moments.append(Moment(self.clock_ms, self.clock_ms))
        for command, *words in args if name == b"EXEC" else [[name, *args]]:
            try:
                _COMMANDS[command](self, *words)
            except RejectedError:
                self.rejected += 1
            self.applied += 1

    def digest(self) -> Digest:
        """What `engine.proof.digest` must say of a state that applied the same events."""
        return combine(
            [
                *(_digest(db, name, entry) for (db, name), entry in self._keys.items() if entry.lives(self.clock_ms)),
                *self.scripts.digests(),
                *self.libraries.digests(),
            ]
        )

    # ---------------------------------------------------------------------------------------------------------- keys

    def _find(self, name: bytes) -> Entry | None:
        entry = self._keys.get((self._db, name))
        return entry if entry is not None and entry.lives(self.clock_ms) else None

    def typed(self, name: bytes, type_code: int) -> Entry | None:
        """The key when it is alive; RejectedError when it has another type."""
        entry = self._find(name)
        if entry is not None and entry.type != type_code:
            raise RejectedError
        return entry

    def make(self, name: bytes, type_code: int, empty: Callable[[], Any]) -> Entry:
        """The key, made anew where it is absent. Check everything else first."""
        entry = self.typed(name, type_code)
        if entry is None:
            entry = self._keys[self._db, name] = Entry(type_code, empty())
        return entry

    def replace(self, name: bytes, entry: Entry | None) -> None:
        """Put something in the place of whatever the key held, or nothing."""
        if entry is None:
            self._keys.pop((self._db, name), None)
        else:
            self._keys[self._db, name] = entry

    def _drop_if_empty(self, name: bytes) -> None:
        if not self._keys[self._db, name].value:
            del self._keys[self._db, name]

    def _del(self, *names: bytes) -> None:
        for name in names:
            self._keys.pop((self._db, name), None)

    def _rename(self, name: bytes, new: bytes) -> None:
        entry = self._find(name)
        if entry is None:
            raise RejectedError
        del self._keys[self._db, name]
        self._keys[self._db, new] = entry

    def _copy(self, name: bytes, new: bytes, *options: bytes) -> None:
        if name == new:
            raise RejectedError
        entry = self._find(name)
        if entry is not None and (b"REPLACE" in options or self._find(new) is None):
            self._keys[self._db, new] = deepcopy(entry)

    def _expire(self, name: bytes, seconds: bytes) -> None:
        self._die_at(name, self.clock_ms + int(seconds) * 1000)

    def _pexpireat(self, name: bytes, at_ms: bytes) -> None:
        self._die_at(name, int(at_ms))

    def _pexpire(self, name: bytes, lifetime_ms: bytes) -> None:
        self._die_at(name, self.clock_ms + int(lifetime_ms))

    def _die_at(self, name: bytes, expire_ms: int) -> None:
        entry = self._find(name)
        if entry is None:
            return
        if expire_ms <= self.clock_ms:
            del self._keys[self._db, name]
        else:
            entry.expire_ms = expire_ms

    def _persist(self, name: bytes) -> None:
        entry = self._find(name)
        if entry is not None:
            entry.expire_ms = 0

    def _flushdb(self) -> None:
        self._keys = {key: entry for key, entry in self._keys.items() if key[0] != self._db}

    def _flushall(self) -> None:
        self._keys = {}

    def _nothing(self, *_: bytes) -> None:
        """TICK."""

    def _setclock(self, from_ms: bytes, to_ms: bytes) -> None:
        """Back to a time at which the clock has been: ids that it has met since count as met just before then, too."""
        if int(from_ms) != self.clock_ms or int(to_ms) >= self.clock_ms:
            raise RejectedError
        self._keys = {key: entry for key, entry in self._keys.items() if entry.lives(self.clock_ms)}
        back_ms = self.clock_ms - int(to_ms)
        self.clock_ms = int(to_ms)
        for moments in self._remembered.values():
            for moment in moments:
                moment.counted_ms -= back_ms * (moment.counted_ms > self.clock_ms)

    # -------------------------------------------------------------------------------------------------------- scripts

    def _eval(self, source: bytes, _: bytes, __: bytes, *words: bytes) -> None:
        """One of `tests.scripted`, with one key."""
        self.scripts.keep(source)
        self._run(source, words)

    def _fcall(self, function: bytes, _: bytes, __: bytes, *words: bytes) -> None:
        self._run(self.libraries.source(function), words)

    def _run(self, source: bytes, words: Sequence[bytes]) -> None:
        before = deepcopy(self._keys) if source == scripted.NEVER else None
        for name, *args in scripted.commands_in(words):
            try:
                _COMMANDS[name](self, *args)
            except RejectedError:
                if source != scripted.TRY:
                    raise
        if before is not None:
            self._keys = before
            raise RejectedError

    def _evalsha(self, sha: bytes, *words: bytes) -> None:
        self._eval(self.scripts.source(sha), *words)

    # -------------------------------------------------------------------------------------------------------- strings

    def _set(self, name: bytes, value: bytes, *options: bytes) -> None:
        """SET with any of NX, XX and PX milliseconds."""
        found = self._find(name)
        if (b"NX" in options and found is not None) or (b"XX" in options and found is None):
            return
        lifetime_ms = int(options[options.index(b"PX") + 1]) if b"PX" in options else 0
        self._keys[self._db, name] = Entry(STRING, value, lifetime_ms and self.clock_ms + lifetime_ms)

    def _get(self, name: bytes) -> None:
        self.typed(name, STRING)

    def _append(self, name: bytes, value: bytes) -> None:
        self.make(name, STRING, bytes).value += value

    def _incr(self, name: bytes) -> None:
        self._incrby(name, b"1")

    def _incrby(self, name: bytes, delta: bytes) -> None:
        entry = self.typed(name, STRING)
        total = _sum(b"0" if entry is None else entry.value, delta)
        self.make(name, STRING, bytes).value = total

    # ---------------------------------------------------------------------------------------------------------- lists

    def _rpush(self, name: bytes, *elements: bytes) -> None:
        self.make(name, LIST, list).value.extend(elements)

    def _lpush(self, name: bytes, *elements: bytes) -> None:
        self.make(name, LIST, list).value[:0] = elements[::-1]

    def _lpop(self, name: bytes, count: bytes = b"1") -> None:
        entry = self.typed(name, LIST)
        if entry is not None:
            del entry.value[: int(count)]
            self._drop_if_empty(name)

    def _rpop(self, name: bytes, count: bytes = b"1") -> None:
        entry = self.typed(name, LIST)
        if entry is not None:
            entry.value = entry.value[: max(0, len(entry.value) - int(count))]
            self._drop_if_empty(name)

    def _ltrim(self, name: bytes, start: bytes, stop: bytes) -> None:
        entry = self.typed(name, LIST)
        if entry is not None:
            size = len(entry.value)
            first, last = (index + size if index < 0 else index for index in (int(start), int(stop)))
            entry.value = entry.value[max(0, first) : max(0, last + 1)]
            self._drop_if_empty(name)

    # --------------------------------------------------------------------------------------------------------- hashes

    def _hset(self, name: bytes, *pairs: bytes) -> None:
        entry = self.make(name, HASH, dict)
        for field, value in zip(pairs[::2], pairs[1::2], strict=True):
            entry.value[field] = value
            entry.times.pop(field, None)

    def _hdel(self, name: bytes, *fields: bytes) -> None:
        self.remove(name, HASH, fields)

    def _hincrby(self, name: bytes, field: bytes, delta: bytes) -> None:
        entry = self.typed(name, HASH)
        total = _sum(b"0" if entry is None else entry.value.get(field, b"0"), delta)
        self.make(name, HASH, dict).value[field] = total

    # ------------------------------------------------------------------------------------------- sets and sorted sets

    def _sadd(self, name: bytes, *members: bytes) -> None:
        self.make(name, SET, set).value.update(members)

    def _srem(self, name: bytes, *members: bytes) -> None:
        entry = self.typed(name, SET)
        if entry is not None:
            entry.value.difference_update(members)
            self._drop_if_empty(name)

    def _sunionstore(self, name: bytes, *sources: bytes) -> None:
        self._store(name, set().union(*self._members(sources)))

    def _sdiffstore(self, name: bytes, *sources: bytes) -> None:
        first, *others = self._members(sources)
        self._store(name, first.difference(*others))

    def _members(self, names: Sequence[bytes]) -> list[set[bytes]]:
        found = [self.typed(name, SET) for name in names]
        return [set() if entry is None else entry.value for entry in found]

    def _store(self, name: bytes, members: set[bytes]) -> None:
        self._keys[self._db, name] = Entry(SET, members)
        self._drop_if_empty(name)

    def _zadd(self, name: bytes, *pairs: bytes) -> None:
        scores = self.make(name, ZSET, dict).value
        scores.update(zip(pairs[1::2], map(float, pairs[::2]), strict=True))

    def _zincrby(self, name: bytes, delta: bytes, member: bytes) -> None:
        scores = self.make(name, ZSET, dict).value
        scores[member] = scores.get(member, 0.0) + float(delta)

    def _zrem(self, name: bytes, *members: bytes) -> None:
        self.remove(name, ZSET, members)

    def _zpopmin(self, name: bytes, count: bytes = b"1") -> None:
        self._zpop(name, int(count), highest=False)

    def _zpopmax(self, name: bytes, count: bytes = b"1") -> None:
        self._zpop(name, int(count), highest=True)

    def _zpop(self, name: bytes, count: int, *, highest: bool) -> None:
        entry = self.typed(name, ZSET)
        if entry is not None:
            scores = entry.value
            for member in sorted(scores, key=lambda member: (scores[member], member), reverse=highest)[:count]:
                del scores[member]
            self._drop_if_empty(name)

    def remove(self, name: bytes, type_code: int, subkeys: Sequence[bytes]) -> None:
        """Fields or members, and the key with the last one."""
        entry = self.typed(name, type_code)
        if entry is not None:
            for subkey in subkeys:
                entry.remove_field(subkey)
            self._drop_if_empty(name)


def _digest(db: int, name: bytes, entry: Entry) -> Digest:
    if entry.type == STREAM:
        return digest_of_items([(db, name, STREAM, entry.expire_ms, entry.value.pieces())])
    if not entry.times:
        return digest_of_items([(db, name, entry.type, entry.expire_ms, entry.value)])
    pieces = [piece for field in sorted(entry.value) for piece in (field, entry.value[field])]
    times = [piece for field in sorted(entry.times) for piece in (field, pack_u64(entry.times[field]))]
    return Digest(key_digest(db, name, HASH, entry.expire_ms, pieces + times), 1)


def _sum(text: bytes, delta: bytes) -> bytes:
    """The sum of two integers as Redis adds them."""
    try:
        total = int(text) + int(delta)
    except ValueError:
        raise RejectedError from None
    if b"%d" % int(text) != text or not _INT_MIN <= int(text) <= _INT_MAX or not _INT_MIN <= total <= _INT_MAX:
        raise RejectedError
    return b"%d" % total


_COMMANDS: Final[dict[bytes, Callable[..., None]]] = {
    b"APPEND": Model._append,
    b"COPY": Model._copy,
    b"DEL": Model._del,
    b"EVAL": Model._eval,
    b"EVALSHA": Model._evalsha,
    b"EXPIRE": Model._expire,
    b"FCALL": Model._fcall,
    b"FLUSHALL": Model._flushall,
    b"FLUSHDB": Model._flushdb,
    b"FUNCTION|DELETE": lambda model, *words: model.libraries.delete(*words),
    b"FUNCTION|FLUSH": lambda model, *words: model.libraries.flush(*words),
    b"FUNCTION|LOAD": lambda model, *words: model.libraries.load(*words),
    b"FUNCTION|RESTORE": lambda model, *words: model.libraries.restore(*words),
    b"GET": Model._get,
    b"HDEL": Model._hdel,
    b"HINCRBY": Model._hincrby,
    b"HSET": Model._hset,
    b"INCR": Model._incr,
    b"INCRBY": Model._incrby,
    b"LPOP": Model._lpop,
    b"LPUSH": Model._lpush,
    b"LTRIM": Model._ltrim,
    b"PERSIST": Model._persist,
    b"PEXPIRE": Model._pexpire,
    b"PEXPIREAT": Model._pexpireat,
    b"RENAME": Model._rename,
    b"RPOP": Model._rpop,
    b"RPUSH": Model._rpush,
    b"SADD": Model._sadd,
    b"SCRIPT|FLUSH": lambda model, *words: model.scripts.flush(*words),
    b"SCRIPT|LOAD": lambda model, *words: model.scripts.load(*words),
    b"SDIFFSTORE": Model._sdiffstore,
    b"SET": Model._set,
    b"SETCLOCK": Model._setclock,
    b"SREM": Model._srem,
    b"SUNIONSTORE": Model._sunionstore,
    b"TICK": Model._nothing,
    b"ZADD": Model._zadd,
    b"ZINCRBY": Model._zincrby,
    b"ZPOPMAX": Model._zpopmax,
    b"ZPOPMIN": Model._zpopmin,
    b"ZREM": Model._zrem,
    **model_more.COMMANDS,
    **model_streams.COMMANDS,
}

COMMANDS: Final = frozenset((*_COMMANDS, b"EXEC"))
"""What the model can apply."""
