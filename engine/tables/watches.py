"""WATCH in the log: which sessions watch which keys, and which have lost a watch.

    CF system   watch/[session:16][db:1][key]  ->  [time_ms:8][alive:1]     a watch since that log time
                watch/[session:16]             ->  [time_ms:8]              the session lost a watch at that log time

A session that has lost one watch needs none of the others: its EXEC will do nothing, so one record stands for all. A
day later it counts as one that has never watched: so the record can go then, at any moment.
A watch is lost when a command modifies the key, when the key was alive and is not any more (`sessions.end_watches`
looks), and when it is older than an hour. All of it is decided by records and their times alone, so a replay decides as
the first run did.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from itertools import takewhile
from struct import Struct
from struct import error as StructError  # noqa: N812 - the module's own name, `error`, says nothing here
from typing import Final

from engine.errors import CorruptionError
from engine.limits import WATCH_LOST_MS_MAX, WATCH_MS_MAX
from engine.store.store import SYSTEM_CF, Changes, Store
from engine.values.encoding import pack_u64, parse_u64, prefix_end
from slotlog.shared.limits import SESSION_BYTES

PREFIX: Final = b"watch/"
WATCH: Final = Struct(">QB")

Place = tuple[int, bytes]
"""(logical database, key)."""


class Watches:
    """The watches of one partition, those of the current batch included. True when there is any that could be lost."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._changes: dict[bytes, bytes | None] = {}
        # Both in order of time: the first entry is the oldest.
        self._sessions: dict[bytes, dict[Place, tuple[int, bool]]] = {}
        self._lost: OrderedDict[bytes, int] = OrderedDict()  # a dict would look for its first one among those that went
        self._watchers: dict[Place, dict[bytes, None]] = {}
        self._load()

    def __bool__(self) -> bool:
        return bool(self._watchers)

    # ------------------------------------------------------------------ one session

    def is_lost(self, session: bytes, now_ms: int) -> bool:
        """Whether the session's EXEC will do nothing, whatever happens: more watches would make no difference."""
        lost_ms = self._lost.get(session)
        return self._is_old(session, now_ms) if lost_ms is None else now_ms - lost_ms <= WATCH_LOST_MS_MAX

    def missing(self, session: bytes, places: Iterable[Place]) -> list[Place]:
        """Those of `places` that the session does not watch yet, each once."""
        watched = self._sessions.get(session, {})
        return [place for place in dict.fromkeys(places) if place not in watched]

    def count(self, session: bytes) -> int:
        """How many keys the session watches."""
        return len(self._sessions.get(session, ()))

    def add(self, session: bytes, place: Place, now_ms: int, *, alive: bool) -> None:
        """Add a watch of a key that the session does not watch yet and that is `alive` or not."""
        self._forgive(session)
        self._put(session, place, now_ms, alive=alive)
        self._changes[_pack(session, place)] = WATCH.pack(now_ms, alive)

    def end(self, session: bytes, now_ms: int) -> list[Place] | None:
        """Forget the session. Returns the watched keys that were alive then: if they are still, all watches held.

        None: a watch was lost, or there is none: a session that is named has watched something, so what it watched was
        forgotten.
        """
        held = session in self._sessions and not self.is_lost(session, now_ms)
        self._forgive(session)
        watched = self._drop(session)
        return [place for place, (_, alive) in watched.items() if alive] if held else None

    # ------------------------------------------------------------------ losing

    def mark(self, place: Place, now_ms: int) -> None:
        """A key was modified: every session that watches it has lost."""
        for session in list(self._watchers.get(place, ())):
            self._lose(session, now_ms)

    def places(self, databases: tuple[int, ...]) -> list[Place]:
        """The watched keys of these databases."""
        return [place for place in self._watchers if place[0] in databases]

    def age(self, now_ms: int) -> None:
        """Mark sessions as lost whose oldest watch is older than an hour."""
        while self._sessions:
            session = next(iter(self._sessions))
            if not self._is_old(session, now_ms):
                break
            self._lose(session, now_ms)

    def forget(self, now_ms: int, sessions_max: int) -> tuple[int, bool]:
        """Drop up to so many of the sessions that lost over a day ago and never came back: for a cleaner.

        Returns how many there were, and whether more are left.
        """
        count = 0
        while self._has_long_lost(now_ms):
            if count == sessions_max:
                return count, True
            self._forgive(next(iter(self._lost)))
            count += 1
        return count, False

    def forget_first(self, now_ms: int) -> None:
        """Drop those of them that lost first, all of one moment: for a command, where no cleaner is.

        Which of one moment stands first depends on when they were loaded, so a part of them is for no command. Who
        watches again and again drops at least as many as lose.
        """
        if self._has_long_lost(now_ms):
            first_ms = next(iter(self._lost.values()))
            for session in list(takewhile(lambda session: self._lost[session] == first_ms, self._lost)):
                self._forgive(session)

    def set_back(self, from_ms: int, to_ms: int) -> None:
        """Mark every watch as lost: its age is not known once the clock goes back. Losses count from now."""
        self.forget(from_ms, len(self._lost))
        for session in (*self._lost, *self._sessions):
            self._lose(session, to_ms)

    # ------------------------------------------------------------------ the end of a batch

    def add_to(self, changes: Changes) -> None:
        """Add what changed to a batch."""
        if self._changes:
            changes.of(SYSTEM_CF).update(self._changes)

    def reset(self, *, written: bool) -> None:
        """The changes are in the store now; or they are to be forgotten."""
        if self._changes:
            self._changes = {}
            if not written:
                self._load()

    def image(self) -> object:
        """The changes that the batch would write, to compare with another image."""
        return dict(self._changes)

    # ------------------------------------------------------------------ inside

    def _is_old(self, session: bytes, now_ms: int) -> bool:
        watched = self._sessions.get(session)
        return watched is not None and now_ms - next(iter(watched.values()))[0] > WATCH_MS_MAX

    def _has_long_lost(self, now_ms: int) -> bool:
        return bool(self._lost) and now_ms - next(iter(self._lost.values())) > WATCH_LOST_MS_MAX

    def _forgive(self, session: bytes) -> None:
        """Forget that the session has lost, if it has."""
        if self._lost.pop(session, None) is not None:
            self._changes[PREFIX + session] = None

    def _put(self, session: bytes, place: Place, time_ms: int, *, alive: bool) -> None:
        self._sessions.setdefault(session, {})[place] = time_ms, alive
        self._watchers.setdefault(place, {})[session] = None

    def _lose(self, session: bytes, now_ms: int) -> None:
        self._drop(session)
        self._lost[session] = now_ms
        self._changes[PREFIX + session] = pack_u64(now_ms)

    def _drop(self, session: bytes) -> dict[Place, tuple[int, bool]]:
        """Take away the session's watches."""
        watched = self._sessions.pop(session, {})
        for place in watched:
            watchers = self._watchers[place]
            del watchers[session]
            if not watchers:
                del self._watchers[place]
            self._changes[_pack(session, place)] = None
        return watched

    def _load(self) -> None:
        self._sessions, self._lost, self._watchers = {}, OrderedDict(), {}
        watches: list[tuple[int, bytes, Place, bool]] = []
        lost: list[tuple[int, bytes]] = []
        for name, value in self._store.scan(SYSTEM_CF, PREFIX, prefix_end(PREFIX)):
            session, place = name[len(PREFIX) :][:SESSION_BYTES], name[len(PREFIX) + SESSION_BYTES :]
            try:
                if place:
                    time_ms, alive = WATCH.unpack(value)
                    watches.append((time_ms, session, (place[0], place[1:]), bool(alive)))
                else:
                    lost.append((parse_u64(value), session))
            except StructError as error:
                message = f"watch record {name.hex()} cannot be read"
                raise CorruptionError(message) from error
        for time_ms, session, watched, alive in sorted(watches):
            self._put(session, watched, time_ms, alive=alive)
        for time_ms, session in sorted(lost):
            self._lost[session] = time_ms


def _pack(session: bytes, place: Place) -> bytes:
    db, name = place
    return PREFIX + session + bytes((db,)) + name
