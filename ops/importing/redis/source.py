"""Gives the keys of a running server, pass by pass, until a pass finds no difference any more.

A pass walks all keys with SCAN and takes each with DUMP and its time to live in one transaction. What differs from what
the ledger remembers is given away, as plain commands; so is the deletion of what is gone. What SCAN does not give is
asked for by name, so a key that is created, changed, renamed or deleted meanwhile is found by this pass or the next
one. A pass without a difference is the last: the log has what the server had when that pass began.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from time import monotonic
from typing import Final

import structlog

from engine.model import TYPE_NAMES
from engine.values.rdb.decode import decode
from engine.values.rdb.errors import FormatError, TooLargeError, UnsupportedError, VersionError
from ops.importing.key_events import events_of, too_large
from ops.importing.libraries import library
from ops.importing.progress_file import make_private
from ops.importing.redis.ledger import LEFT_OUT, TORN, Ledger, Seen
from ops.importing.redis.pieces import Reading
from ops.importing.redis.server import Dumped, Server
from ops.importing.source import DELETED, Command, ImportKey, LeftOut, Options, SourceError
from slotlog.shared.limits import DATABASES
from slotlog.wording import counted

LARGE_BYTES: Final = 1024 * 1024
"""A key that takes more of the server's memory than this is read in pieces, and no DUMP is asked for."""

_TOGETHER_BYTES: Final = 4 * LARGE_BYTES  # of the keys that are asked for at once
_DIGEST_BYTES: Final = 16
_SLACK_MS: Final = 1000  # by which a time that was reckoned from PTTL may differ

_KEPT_LEAST: Final = 0.9
"""What part of the keys a server has to have after a restart. It may lose the last seconds, not more."""

logger = structlog.get_logger(__name__)


def open_source(url: str, options: Options) -> RedisSource:
    """The server at `url`.

    Raises:
        SourceError: it cannot be imported from.
    """
    server = Server(url)
    try:
        path = None
        if options.progress is not None:
            make_private(options.progress)
            path = options.progress / "keys.sqlite3"
        return RedisSource(server, Ledger(path), options)
    except BaseException:
        server.close()
        raise


class RedisSource:
    """The keys of one server.

    Attributes:
        done: keys that were looked at in the pass that runs.
        total: keys of the server at the start.
    """

    unit = "keys"

    def __init__(self, server: Server, ledger: Ledger, options: Options) -> None:
        self._server = server
        self._ledger = ledger
        self._options = options
        self._passes = 0
        self._changed = 0
        self._converged = False
        self._libraries = 0  # that were given, and are not appended yet
        self.done = 0
        self.total = sum(self._databases().values())

    @property
    def identity(self) -> str:
        """Its address."""
        return self._server.label

    @property
    def label(self) -> str:
        """Its address."""
        return self._server.label

    def keys(self, mark: str | None) -> Iterator[ImportKey | LeftOut | None]:
        """The keys that differ from what the ledger remembers; there are no marks."""
        for name, code in self._server.libraries():
            found = library(name, code)
            self._libraries += isinstance(found, ImportKey)
            yield found
        while True:
            began = monotonic()
            yield from self._pass()
            yield None
            self._passes += 1
            seconds = round(monotonic() - began, 1)
            logger.info("import_pass", number=self._passes, keys=self.done, changed=self._changed, seconds=seconds)
            self._converged = not self._changed
            if self._converged or self._options.once or self._options.progress is None:
                return
            logger.info("import_next_pass", hint="stop the writers of the source: a pass without a change is the last")

    def appending(self) -> None:
        """Note in the ledger what is in doubt from now on."""
        self._ledger.doubt()

    def appended(self, keys: int) -> None:
        """Note so many more keys in the ledger, in which libraries are not."""
        libraries = min(keys, self._libraries)
        self._libraries -= libraries
        self._ledger.appended(keys - libraries)

    def notes(self) -> Sequence[str]:
        """Whether the time has come to switch."""
        if self._converged:
            found = f"pass {self._passes} found no difference: the log has what {self.label} has"
            return [f"{found}. If its writers have stopped, switch now"]
        return [f"{self.label} was read once: what changed meanwhile may be missing. Run it again to take that, too"]

    def close(self) -> None:
        """Close the connections and the ledger."""
        self._server.close()
        self._ledger.close()

    def _databases(self) -> dict[int, int]:
        """The keys of each database that is imported."""
        only = self._options.databases
        found = {db: keys for db, keys in self._server.databases().items() if not only or db in only}
        databases = DATABASES if self._options.partitions == 1 else 1
        if beyond := [str(db) for db in found if db >= databases]:
            held = f"databases 0 to {databases - 1}" if databases > 1 else "database 0 alone, with several partitions"
            raise SourceError(
                f"{self._server.label} has keys in database {', '.join(beyond)}, and slotlog has {held}: say which to"
                " import with --db"
            )
        return found

    def _asked_for(self, databases: set[int]) -> set[int]:
        return databases & self._options.databases if self._options.databases else databases

    def _pass(self) -> Iterator[ImportKey | LeftOut]:
        self._ledger.begin_pass()
        self._changed = self.done = 0
        databases = self._databases()
        self._refuse_lost_data(databases)
        for db in sorted(databases):
            yield from self._take(self._scanned(db))
        yield from self._take((db, names) for db, names in self._ledger.unmet() if self._asked_for({db}))

    def _refuse_lost_data(self, databases: Mapping[int, int]) -> None:
        """A server that came back without its data, or with a part of it, is no reason to delete the rest.

        Raises:
            SourceError: it is empty, or has started anew and has far fewer keys than have come from it.
        """
        run_id = self._server.run_id()
        is_another = bool(self._ledger.run_id) and run_id != self._ledger.run_id
        if is_another or not databases:
            known = self._ledger.lasting_keys()
            asked = self._asked_for(set(known))
            before, now = sum(known[db] for db in asked), sum(databases.values())
            if before and (not now or (is_another and now < _KEPT_LEAST * before)):
                raise SourceError(
                    f"{self._server.label} has {counted(now, 'key')}, and {before} that live for ever have come from"
                    " it: was it restarted without its data? Nothing was deleted. Give it its data back. If it is right"
                    f" as it is, remove {self._options.progress} to import from the start: slotlog keeps those that are"
                    " gone there"
                )
        self._ledger.met_server(run_id)

    def _scanned(self, db: int) -> Iterator[tuple[int, list[bytes]]]:
        cursor = -1
        while cursor:
            cursor, names = self._server.scan(db, max(cursor, 0))
            if names:
                yield db, names
                self.done += len(names)

    def _take(self, asked: Iterable[tuple[int, Sequence[bytes]]]) -> Iterator[ImportKey | LeftOut]:
        """What is to be done about some keys. The server dumps some while those before them are looked at."""
        waiting: tuple[int, list[bytes], int, list[Dumped]] | None = None
        for db, small, large in self._groups(asked):
            answer = self._server.begin_dumps(db, small)
            unread: list[tuple[int, bytes]] = []
            if waiting is not None:
                yield from self._take_small(*waiting, unread)
            waiting = db, small, *answer()
            yield from self._take_large_ones([*unread, *((db, name) for name in large)])
        if waiting is not None:
            unread = []
            yield from self._take_small(*waiting, unread)
            yield from self._take_large_ones(unread)

    def _groups(self, asked: Iterable[tuple[int, Sequence[bytes]]]) -> Iterator[tuple[int, list[bytes], list[bytes]]]:
        """Database, keys that are small enough to be asked for at once, and large ones."""
        for db, names in asked:
            small: list[bytes] = []
            large: list[bytes] = []
            together = 0
            for name, size in zip(names, self._server.sizes(db, names), strict=True):
                if size > LARGE_BYTES:
                    large.append(name)
                    continue
                if together + size > _TOGETHER_BYTES:
                    yield db, small, large
                    small, large, together = [], [], 0
                small.append(name)
                together += size
            yield db, small, large

    def _take_small(
        self, db: int, names: list[bytes], now_ms: int, dumps: list[Dumped], unread: list[tuple[int, bytes]]
    ) -> Iterator[ImportKey | LeftOut]:
        """Keys with what DUMP gave of them. What cannot be decoded goes to `unread`."""
        known = self._ledger.look(db, names)
        same, expired = [], []
        for name, (payload, expire_ms) in zip(names, dumps, strict=True):
            before = known.get(name)
            if payload is None:
                if before is None:
                    continue
                if before.digest == LEFT_OUT or 0 < before.expire_ms <= now_ms:  # it dies at that time there as well
                    expired.append(name)
                else:
                    yield self._deletion(db, name)
                continue
            seen = Seen(blake2b(payload, digest_size=_DIGEST_BYTES).digest(), expire_ms)
            if before is not None and self._is_same(before, seen):
                same.append(name)
                continue
            try:
                content = decode(payload)
            except (UnsupportedError, VersionError, FormatError, TooLargeError):
                unread.append((db, name))  # such as one of a newer server: plain commands can read it
                continue
            if reason := too_large(name, content):
                yield from self._leave_out(db, LeftOut(db, name, "too large", reason), before)
            else:
                events = self._events(events_of(name, expire_ms, [content]), db, name, seen)
                yield ImportKey(db, name, TYPE_NAMES[content.type], events)
        self._ledger.met(db, same)
        self._ledger.forget(db, expired)

    def _is_same(self, before: Seen, seen: Seen) -> bool:
        if before.digest != seen.digest or bool(before.expire_ms) != bool(seen.expire_ms):
            return False
        return abs(before.expire_ms - seen.expire_ms) <= (0 if self._server.exact_times else _SLACK_MS)

    def _take_large_ones(self, names: Iterable[tuple[int, bytes]]) -> Iterator[ImportKey | LeftOut]:
        for db, name in names:
            yield from self._take_large(db, name, self._ledger.look(db, [name]).get(name))

    def _take_large(self, db: int, name: bytes, before: Seen | None) -> Iterator[ImportKey | LeftOut]:
        """One key that is read in pieces: once to see whether it differs, and then once more."""
        reading = Reading(self._server, db, name)
        try:
            if reading.kind == "none":
                if before is not None:
                    yield self._deletion(db, name)
                return
            if reading.kind not in TYPE_NAMES.values():
                left_out = LeftOut(db, name, reading.kind, f"slotlog has no type {reading.kind}")
                yield from self._leave_out(db, left_out, before)
                return
            digest, reason = reading.survey()
            seen = Seen(digest, reading.expire_ms)
            if reason:
                yield from self._leave_out(db, LeftOut(db, name, "too large", reason), before)
            elif before is not None and self._is_same(before, seen):
                self._ledger.met(db, [name])
            else:
                yield ImportKey(db, name, reading.kind, self._pieces(reading, db, name, seen))
        finally:
            reading.end()

    def _events(self, events: Iterable[Command], db: int, name: bytes, seen: Seen | None) -> Iterator[Command]:
        """The events of a key, which is noted as given away once they were taken."""
        self._ledger.begin(db, name)
        yield from events
        self._changed += 1
        self._ledger.given(db, name, seen)

    def _pieces(self, reading: Reading, db: int, name: bytes, seen: Seen) -> Iterator[Command]:
        """As `_events`, of a key that is read meanwhile."""
        self._ledger.begin(db, name)
        yield from reading.events()
        self._changed += 1
        self._ledger.given(db, name, seen if reading.unchanged else Seen(TORN, 0))

    def _deletion(self, db: int, name: bytes, seen: Seen | None = None) -> ImportKey:
        return ImportKey(db, name, DELETED, self._events([(b"DEL", [name])], db, name, seen))

    def _leave_out(self, db: int, left_out: LeftOut, before: Seen | None) -> Iterator[ImportKey | LeftOut]:
        """What cannot be held. It is told once in each run; what an earlier pass has brought of that name goes."""
        name, kept = left_out.name, Seen(LEFT_OUT, 0)
        if before is None or before == kept:
            self._ledger.keep(db, name, kept)
        else:
            yield self._deletion(db, name, kept)
        if before != kept or not self._passes:
            yield left_out
