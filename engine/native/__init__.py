"""The hot path of events in C, where it was built.

Its twin is the code in Python that it stands for:

    decode_run     records of a log become events          twin: `slotlog.events.decode_all`
    Path.others    the usual records of a batch are run    twin: the loop of `Machine.apply`, `Executor.apply`,
                                                                 `Deduplicator` and the commands
    write_keys     the keys of a batch become records      twin: `engine.batch.in_memory.writing.write_keys`
    mark_written   they are ready for the next batch       twin: `engine.batch.in_memory.writing.mark_written`
    PackedMemory   elements of large collections are held  no twin: Python reads them from the store
    gather, Getter, bring_in_order, put_all                twins: in `engine.store.gathered`, `engine.store.rocks`

and, for the clients of the RESP server and the embedded log, which are given it:

    parse_commands   requests become commands              twin: `Parser._take_fast_path` (resp/wire/protocol.py)
    take_writes      commands become items                 twin: `resp.clients.running.fast_path.items_of`
    take_data        both, while writes alone come         twin: the two, one behind the other
    rows_of          items become rows of the log          twin: `slotlog.log.embedded.writer._rows_by_columns`
    records_of       and records                           twin: `resp.writes.groups.records_of`
    answer_writes    replies take their places             twin: `PendingReply.answer` of each
    take_filled      and go out                            twin: `resp.clients.output.take_filled`
    read_run         reads are answered                    twin: `resp.clients.running.fast_path.read` of each
    ClientPath.take  bytes of a client are run             twin: `Connection.data_received`
    ClientPath.send  replies that it waits for go out      twin: `Session.flush`

It works on the objects of Python, and takes only what is usual:

- the commands in engine/native/commands.c, with no other options than SET's time to live; alone or in an EXEC, with an
  id or without;
- in database 0, outside of a session, while nobody watches keys or waits for them;
- to keys in their plain forms, in a layout that says it packs as `neokv` (`Layout.packs_as`);
- of clients, well-formed requests, writes with one key, replies that are OK, null, integers or bulk strings, and the
  reads in `READS` of keys that are in memory and do not die by the wall clock; of sorted sets where what is needed of
  their rank counts is in memory, too; of whole collections where they are small.

All else it leaves to Python, in the middle of a batch or of an EXEC too, and goes on behind it. So no command has two
meanings, and nothing that comes of a record depends on which of the two runs.
"""

from __future__ import annotations

from types import ModuleType
from typing import Final

from slotlog.shared.compiled import allow

try:
    from engine.native import _hot
except ImportError:  # it was installed without a C compiler
    _hot = None  # type: ignore[assignment]

INTERFACE: Final = 20
"""What Python and C agree on: to be raised here and in module.c whenever a call between the two changes."""

IS_BUILT: Final = _hot is not None

FITS: Final = IS_BUILT and getattr(_hot, "INTERFACE", 1) == INTERFACE
"""Whether what was built speaks with this Python; what was built before a change of it is left aside."""

READS: Final = {
    b"GET": 0,
    b"HGET": 1,
    b"ZRANK": 2,
    b"ZCOUNT": 3,
    b"ZRANGE": 4,
    b"ZRANGEBYSCORE": 5,
    b"HGETALL": 6,
    b"HKEYS": 7,
    b"HVALS": 8,
    b"LRANGE": 9,
    b"SMEMBERS": 10,
    b"SINTER": 11,
}
"""The commands of `read_run`, and their kinds."""

PACKS_AS: Final = "neokv"
"""The form of metadata keys and values that it packs: see `Layout.packs_as`."""

_chosen: ModuleType | None = _hot if FITS else None


def choose(*, native: bool) -> None:
    """Let later machines run on the part in C, if it was built and fits, or on Python alone; and so later readers."""
    global _chosen  # noqa: PLW0603 - one for the process: it stands for how slotlog was installed
    allow(compiled=native)
    _chosen = _hot if native and FITS else None


def chosen() -> ModuleType | None:
    """The part in C (`engine/native/_hot.pyi`); None: Python runs alone."""
    return _chosen
