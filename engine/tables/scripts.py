"""Scripts in the state: the sources that EVALSHA finds by their SHA-1.

    CF system   script/[sha1:20]  ->  [number:8][loaded:1][source]

A script that EVAL has brought may go when there are more than 500 of them, the one that came first before the others.
What SCRIPT LOAD has brought stays until SCRIPT FLUSH. `number` counts scripts in the order in which they came. All of
them are in memory, as in Redis.
"""

from __future__ import annotations

from hashlib import sha1
from struct import Struct
from typing import Final, NamedTuple

from engine.errors import CorruptionError
from engine.limits import EVAL_SCRIPTS_MAX
from engine.store.store import SYSTEM_CF, Changes, Store
from engine.values.encoding import prefix_end

PREFIX: Final = b"script/"
HEADER: Final = Struct(">QB")
DIGEST_BYTES: Final = 20
LOADED_AT: Final = HEADER.size - 1


class StoredScript(NamedTuple):
    """One script.

    Attributes:
        number: how many came before it, and one.
        loaded: by SCRIPT LOAD; it does not go by itself.
        source: as it was sent.
    """

    number: int
    loaded: bool
    source: bytes


def digest_of(source: bytes) -> bytes:
    """SHA-1 of a source, in lower-case hexadecimal: the name by which clients call it."""
    return sha1(source, usedforsecurity=False).hexdigest().encode()


def parse_record(value: bytes) -> StoredScript | None:
    """The script of a record; None when it is none."""
    if len(value) < HEADER.size:
        return None
    number, loaded = HEADER.unpack_from(value)
    return StoredScript(number, bool(loaded), value[HEADER.size :]) if number and loaded <= 1 else None


class Scripts:
    """The scripts of one partition, those of the current batch included.

    Attributes:
        by_sha: by their SHA-1 in lower-case hexadecimal, in the order of their numbers.
        bytes: size of all sources.
        evicted: how many have gone since this was made, as EVAL had brought too many; not those of other processes.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.by_sha: dict[bytes, StoredScript] = {}
        self.bytes = self.evicted = 0
        self._evaluated: dict[bytes, None] = {}
        self._last = 0
        self._before: tuple[dict[bytes, StoredScript], dict[bytes, None], int, int] | None = None
        self._load()

    def find(self, sha: bytes) -> bytes | None:
        """The source whose SHA-1 this is, in either case; None when there is none."""
        found = self.by_sha.get(sha) or self.by_sha.get(sha.lower())
        return None if found is None else found.source

    def keep(self, sha: bytes, source: bytes, changes: Changes, *, loaded: bool) -> None:
        """Keep a script. One that is there already changes only in that it may be `loaded` from now on."""
        found = self.by_sha.get(sha)
        if found is not None and (found.loaded or not loaded):
            return
        self._begin()
        if found is None:
            self._last += 1
            self.bytes += len(source)
        number = self._last if found is None else found.number
        self._put(sha, StoredScript(number, loaded, source))
        changes.of(SYSTEM_CF)[_name(sha)] = HEADER.pack(number, loaded) + source
        if len(self._evaluated) > EVAL_SCRIPTS_MAX:
            self._remove(next(iter(self._evaluated)), changes)
            self.evicted += 1

    def flush(self, changes: Changes) -> None:
        """Forget all scripts."""
        self._begin()
        for sha in list(self.by_sha):
            self._remove(sha, changes)
        self._last = 0  # as after a restart

    def reset(self, *, written: bool) -> None:
        """The batch is in the store now; or it is thrown away, and all are as they were before it.

        That reads nothing: it cannot fail where the rest of the batch is forgotten.
        """
        if self._before is not None and not written:
            self.by_sha, self._evaluated, self.bytes, self._last = self._before
        self._before = None

    def image(self) -> object:
        """What is kept, to compare with another image."""
        return dict(self.by_sha)

    # ------------------------------------------------------------------ inside

    def _begin(self) -> None:
        """Remember how all are, before the first change of a batch."""
        if self._before is None:
            self._before = dict(self.by_sha), dict(self._evaluated), self.bytes, self._last

    def _load(self) -> None:
        """Read all of them from the store."""
        found = []
        for name, value in self._store.scan(SYSTEM_CF, PREFIX, prefix_end(PREFIX)):
            script = parse_record(value)
            if script is None or len(name) != len(PREFIX) + DIGEST_BYTES:
                message = f"script record {name.hex()} cannot be read"
                raise CorruptionError(message)
            found.append((script, name[len(PREFIX) :].hex().encode()))
        for script, sha in sorted(found):
            self._put(sha, script)
            self.bytes += len(script.source)
            self._last = script.number

    def _put(self, sha: bytes, script: StoredScript) -> None:
        self.by_sha[sha] = script
        if script.loaded:
            self._evaluated.pop(sha, None)
        else:
            self._evaluated[sha] = None

    def _remove(self, sha: bytes, changes: Changes) -> None:
        self.bytes -= len(self.by_sha.pop(sha).source)
        self._evaluated.pop(sha, None)
        changes.of(SYSTEM_CF)[_name(sha)] = None


def _name(sha: bytes) -> bytes:
    return PREFIX + bytes.fromhex(sha.decode())
