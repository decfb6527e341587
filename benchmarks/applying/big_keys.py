"""Measures DEL of a large hash, and pops from a sorted set with many tombstones."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Final

from benchmarks.applying.subject import HOME, open_store
from benchmarks.applying.trace import RecordingStore
from benchmarks.applying.workloads import START_MS, Size
from benchmarks.measure import Result, Seconds, Stopwatch
from engine.apply.machine import Machine, Record
from engine.layouts.layout import Kind
from engine.layouts.neokv import NeoKV
from engine.store.store import GRAVEYARD_CF

_FIELDS_AT_ONCE: Final = 1000
_SMALL_FIELDS: Final = 10
_POPS_AT_ONCE: Final = 100


class _Sender:
    """Applies single commands, each the next record."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def __call__(self, name: bytes, *commands: list[bytes]) -> list[object]:
        """Apply one batch of `name` with each of these arguments. Returns the replies."""
        start = self._machine.next_offset
        records: list[Record] = [
            (offset, START_MS, name, args, 0, None, None) for offset, args in enumerate(commands, start)
        ]
        applied = self._machine.apply(records, start, waiting=range(start, start + len(commands)))
        self._machine.commit(b"fingerprint")
        return list(applied.outcomes.values())


def deletes(size: Size, directory: Path) -> Result:
    """DEL of hashes of `size.big_fields` fields and of 10 fields in turn, each a batch of its own, after a restart.

    Raises:
        RuntimeError: a hash was not there, or was not left to the graveyard.
    """
    with closing(open_store(directory)) as store:
        send = _Sender(Machine(store, HOME))
        for number in range(size.big_hashes):
            for first in range(0, size.big_fields, _FIELDS_AT_ONCE):
                fields = range(first, min(first + _FIELDS_AT_ONCE, size.big_fields))
                send(b"HSET", [b"big:%d" % number, *(part for n in fields for part in (b"field:%d" % n, b"value"))])
            small = [part for n in range(_SMALL_FIELDS) for part in (b"field:%d" % n, b"value")]
            send(b"HSET", [b"small:%d" % number, *small], [b"warm:%d" % number, *small])
        store.flush_all()
    with closing(open_store(directory)) as store:
        send = _Sender(Machine(store, HOME))
        passes = []
        for number in range(size.big_hashes):
            names = [b"big:%d" % number, b"small:%d" % number]
            if number % 2:  # whoever comes first finds the caches colder
                names.reverse()
            _timed_delete(send, b"warm:%d" % number)
            times = {name[:3]: _timed_delete(send, name) for name in names}
            passes.append((times[b"big"], times[b"sma"]))
        graves = sum(1 for _ in store.scan(GRAVEYARD_CF, b"", None))
        if graves != 3 * size.big_hashes or send(b"EXISTS", [b"big:0"]) != [0]:
            raise RuntimeError(f"{graves} entries in the graveyard after {3 * size.big_hashes} deletes")
    return Result(f"del_{size.big_fields}_fields", 1, passes)


def pops(size: Size, directory: Path, name: bytes) -> Result:
    """ZPOPMIN or ZPOPMAX of one member, from a sorted set twice as large: the last tenth against the first.

    Raises:
        RuntimeError: a pop gave another member than the next one.
    """
    with closing(open_store(directory)) as plain:
        send = _Sender(Machine(plain, HOME))
        members = range(2 * size.popped)
        for first in range(0, len(members), _FIELDS_AT_ONCE):
            pairs = [part for n in members[first : first + _FIELDS_AT_ONCE] for part in (b"%d" % n, b"member:%08d" % n)]
            send(b"ZADD", [b"zset", *pairs])
    with closing(RecordingStore(open_store(directory))) as store:
        send = _Sender(Machine(store, HOME))
        store.scanned.clear()
        times = []
        popped: list[object] = []
        for _ in range(size.popped // _POPS_AT_ONCE):
            watch = Stopwatch()
            replies = send(name, *[[b"zset"]] * _POPS_AT_ONCE)
            times.append(watch.read())
            popped += replies
        ordered = members if name == b"ZPOPMIN" else members[::-1]
        if popped != [[b"member:%08d" % n, float(n)] for n in ordered[: len(popped)]]:
            raise RuntimeError(f"{name!r} popped what was not next")
        tenth = max(1, len(times) // 10)
        passes = list(zip(times[-tenth:], times[:tenth], strict=True))
        extra = {"read_per_popped": round(store.scanned[NeoKV.families[Kind.SCORES]] / len(popped), 3)}
    return Result(name.decode().lower(), _POPS_AT_ONCE, passes, extra)


def _timed_delete(send: _Sender, name: bytes) -> Seconds:
    watch = Stopwatch()
    replies = send(b"DEL", [name])
    seconds = watch.read()
    if replies != [1]:
        raise RuntimeError(f"{name!r} was not there")
    return seconds
