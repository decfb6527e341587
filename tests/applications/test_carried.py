"""Scripts that libraries carry reply and write, called at random, as they do in Redis."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from engine.apply.machine import Machine
from engine.commands.registry import find
from slotlog.clock import now_ms
from tests.applications.carried import Carried, carried_scripts
from tests.engine.harness import FINGERPRINT, HOME, new_store
from tests.engine.scripts.oracle_host import shown
from tests.real.oracle import Connection, ErrorReply, Oracle

CALLS: Final = int(os.environ.get("SCRIPT_PIECES", "0")) // 1000 or 5
"""Of each script."""

LEAST: Final = 100
"""So many scripts are carried by what is installed, or the search is wrong."""

_UNORDERED: Final = re.compile(rb"HGETALL|HKEYS|HVALS|SMEMBERS|SINTER|SUNION|SDIFF|KEYS'|SCAN|KEYS\"", re.IGNORECASE)
_BY_CHANCE: Final = re.compile(rb"['\"](TIME|P?TTL|SPOP|SRANDMEMBER|HRANDFIELD|\w*SCAN)['\"]", re.IGNORECASE)
"""Commands whose replies differ from moment to moment: only whether a script fails is compared."""

_REFUSED: Final = re.compile(rb"['\"]MEMORY['\"]")
"""What a script that is an event may not call: see docs/differences.md."""

# No word is a short time to live, which would end there while it is looked at, or 0, of which Lua may make -0.
_KEYS: Final = (b"{q}a", b"{q}b", b"{q}c", b"{q}list", b"{q}hash", b"{q}set", b"{q}zset", b"{q}none")
_WORDS: Final = (
    *(b"-1", b"100000", b"200000", b"60000", b"1700000000000", b"0.5", b"", b"a", b"token", b"x:y", b"field"),
    *(
        b'{"a": 1, "id": "7"}',
        b"[1, 2]",
        b"\x83\xa1a\x01\xa1b\xc0\xa1c\x93\x01\x02\x03",
        b"nx",
        b"+inf",
        b"{q}list",
        b"{q}:",
    ),
)
_FILLING: Final[tuple[tuple[bytes, ...], ...]] = (
    (b"SET", b"{q}a", b"1"),
    (b"SET", b"{q}b", b"token", b"PX", b"1000000"),
    (b"RPUSH", b"{q}list", b"a", b"7", b"token"),
    (b"HSET", b"{q}hash", b"field", b"1", b"a", b"token", b"opts", b"{}"),
    (b"SADD", b"{q}set", b"a", b"1", b"token"),
    (b"ZADD", b"{q}zset", b"1", b"a", b"2", b"token", b"1700000000000", b"7"),
)
_UNORDERED_TYPES: Final = frozenset({b"hash", b"set"})
_READS: Final = {
    b"string": (b"GET",),
    b"list": (b"LRANGE", b"0", b"-1"),
    b"hash": (b"HGETALL",),
    b"set": (b"SMEMBERS",),
    b"zset": (b"ZRANGE", b"0", b"-1", b"WITHSCORES"),
}


class Ours:
    """A machine, called as a server is."""

    def __init__(self) -> None:
        self._machine = Machine(new_store(), HOME)
        self._now_ms = now_ms()

    def call(self, *words: bytes) -> Any:
        """The reply of one event, in the form in which a connection shows it."""
        offset, name, args = self._machine.next_offset, words[0], list(words[1:])
        if not find(name).write:
            return shown(self._machine.read(name, args), 2)
        applied = self._machine.apply([(offset, self._now_ms, name, args, 0, None, None)], offset, waiting=[offset])
        self._machine.commit(FINGERPRINT)
        return shown(applied.outcomes[offset], 2)


def _contents(server: Any) -> list[Any]:
    """All keys with their types and elements, whatever the order in which a server keeps these."""
    found = []
    for key in sorted(server.call(b"KEYS", b"*")):
        kind = server.call(b"TYPE", key).text
        if kind in _READS:
            name, *rest = _READS[kind]
            value = server.call(name, key, *rest)
            found.append(
                (key, kind, sorted(value) if kind in _UNORDERED_TYPES else value, server.call(b"PTTL", key) > 0)
            )
    return found


def _loose(reply: Any) -> Any:
    """A reply without its order."""
    return sorted(map(_loose, reply), key=repr) if isinstance(reply, list) else reply


def _call(random: Random, script: Carried) -> list[bytes]:
    """Keys and arguments, mostly as many as the script names."""
    keys = [random.choice(_KEYS) for _ in range(script.keys + (random.randrange(8) == 0))]
    args = [random.choice(_WORDS) for _ in range(script.args + random.randrange(3))]
    return [b"%d" % len(keys), *keys, *args]


def _difference(script: Carried, call: list[bytes], redis: Connection) -> object:
    """What one call does here and there, if it differs; None if not."""
    ours = Ours()
    redis.call("FLUSHALL")
    for command in _FILLING:
        redis.call(*command)
        ours.call(*command)
    there, here = (server.call(b"EVAL", script.source, *call) for server in (redis, ours))
    if _BY_CHANCE.search(script.source):
        there, here = (isinstance(reply, ErrorReply) for reply in (there, here))
        return None if there == here else (script.place, call, there, here)
    if _UNORDERED.search(script.source):
        there, here = _loose(there), _loose(here)
    if there != here:
        return script.place, call, there, here
    there, here = _contents(redis), _contents(ours)
    return None if there == here else (script.place, call, there, here)


@pytest.fixture
def redis() -> Iterator[Connection]:
    """A connection to Debian's redis-server, whose texts of errors are ours."""
    with (
        tempfile.TemporaryDirectory(prefix="redis-") as directory,
        Oracle(Path(directory), binary="redis-server") as server,
        closing(server.connect()) as connection,
    ):
        yield connection


def test_any_script_of_a_library_does_what_it_does_in_redis(redis: Connection) -> None:
    """Each script that a library brings replies and writes what it does there, called with random keys and words."""
    random = Random() if "SCRIPT_PIECES" in os.environ else Random(3)
    scripts = [script for script in carried_scripts() if not _REFUSED.search(script.source)]
    assert len(scripts) >= LEAST
    assert (
        []
        == [
            difference
            for script in scripts
            for _ in range(CALLS)
            if (difference := _difference(script, _call(random, script), redis)) is not None
        ][:5]
    )
