"""The kinds of sources, told apart by how they are written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from ops.importing.source import Options, Source, SourceError, public_part


class Kind(NamedTuple):
    """A kind of source.

    Attributes:
        form: how it is written, for people.
        matches: whether the words of the verb, source and layout, mean it.
        open: the source. Raises SourceError, OSError, ValueError where it cannot be read.
    """

    form: str
    matches: Callable[[str, str], bool]
    open: Callable[[str, Options], Source]


def _is_redis(source: str, layout: str) -> bool:
    return source.partition("://")[0] in {"redis", "rediss", "unix"} and not layout


def _open_redis(source: str, options: Options) -> Source:
    from ops.importing.redis.source import open_source  # noqa: PLC0415 - redis-py takes 0.1 s to load

    return open_source(source, options)


def _is_file(source: str, layout: str) -> bool:
    return "://" not in source and not layout


def _open_file(source: str, options: Options) -> Source:
    from ops.importing.rdb.source import open_source  # noqa: PLC0415 - the other kinds do without

    return open_source(source, options)


def _is_kvrocks(source: str, layout: str) -> bool:
    return "://" not in source and layout.startswith("kvrocks")


def _open_kvrocks(source: str, options: Options) -> Source:
    from ops.importing.kvrocks.source import KvrocksSource  # noqa: PLC0415 - the other kinds do without

    return KvrocksSource(Path(source), options)


def _is_phase1(source: str, layout: str) -> bool:
    return "://" not in source and layout == "neokv1"


def _open_phase1(source: str, options: Options) -> Source:
    from ops.importing.phase1.source import Phase1Source  # noqa: PLC0415 - the other kinds do without

    return Phase1Source(Path(source), options)


KINDS: Final[Sequence[Kind]] = (
    Kind("redis://HOST:PORT, rediss://HOST:PORT or unix://PATH: a server that runs", _is_redis, _open_redis),
    Kind("dump.rdb: an RDB file of Redis or Valkey", _is_file, _open_file),
    Kind("the directory of a Kvrocks, with --layout kvrocks", _is_kvrocks, _open_kvrocks),
    Kind("the directory of a NeoKV of Phase 1, with --layout neokv1", _is_phase1, _open_phase1),
)


def open_source(source: str, options: Options) -> Source:
    """The source that is written so.

    Raises:
        SourceError: none is, or it cannot be read; with what to do. OSError: a file cannot be read.
    """
    for kind in KINDS:
        if kind.matches(source, options.layout):
            return kind.open(source, options)
    if options.layout and "://" in source:
        raise SourceError(f"--layout is for directories: leave it out to import from {public_part(source)}")
    if options.layout:
        raise SourceError(
            f"--layout {options.layout} is none of an import; it is kvrocks, kvrocks-cluster or neokv1, by what wrote"
            " the directory. A state of slotlog is none: its log has the events"
        )
    forms = "; ".join(kind.form for kind in KINDS)
    raise SourceError(f"{public_part(source)} is no source of an import. A source is {forms}")
