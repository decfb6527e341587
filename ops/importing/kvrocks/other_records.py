"""Lists what a directory of Kvrocks holds beside its keys, none of which an import carries over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ops.importing.kvrocks.directory import PROPAGATE, SEARCH, KvrocksDirectory
from ops.importing.source import LeftOut
from slotlog.wording import counted

_NAMESPACES: Final = b"__namespace_keys__"
_REPLICATION_ID: Final = b"replication_id_"
_PROPAGATED: Final = {b"lua_f_": "script", b"lua_func_lib_": "function", b"lua_lib_code_": "function library"}


def other_records(directory: KvrocksDirectory) -> Iterator[LeftOut]:
    """Scripts, functions, namespaces, indexes, and column families that are not known. Tokens are not shown.

    Raises:
        CorruptionError: the directory is damaged.
    """
    for name, _ in directory.scan(PROPAGATE):
        if name.startswith(_NAMESPACES):
            yield LeftOut(None, name, "namespaces", "they have tokens there; make users with ACL SETUSER")
        elif not name.startswith(_REPLICATION_ID):
            prefix = next((each for each in _PROPAGATED if name.startswith(each)), b"")
            what = _PROPAGATED.get(prefix, "propagated record")
            yield LeftOut(None, name[len(prefix) :], what, "slotlog does not have this")
    if next(directory.scan(SEARCH), None) is not None:
        records = counted(directory.estimated_count(SEARCH), "record")
        yield LeftOut(None, SEARCH.encode(), "search index", f"about {records} of FT indexes")
    for family in directory.unknown:
        records = counted(directory.estimated_count(family), "record")
        reason = f"about {records} of a newer Kvrocks, in a column family that is not known"
        yield LeftOut(None, family.encode(), "column family", reason)
