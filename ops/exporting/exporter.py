"""The protocol of an export: what it is given, and what it tells of what it cannot hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple, TypeAlias

from engine.proof.walk import LiveKey


class NotExported(NamedTuple):
    """Something that the files cannot hold.

    Attributes:
        db: logical database; None of a library of functions.
        name: of the key, or of the library.
        what: is missing in the files, such as `times of fields`.
        reason: why, in words.
        is_whole_key: nothing of the key is in the files.
    """

    db: int | None
    name: bytes
    what: str
    reason: str
    is_whole_key: bool = False


Tell: TypeAlias = Callable[[NotExported], None]

Export: TypeAlias = Callable[[Path, Iterable[LiveKey], Mapping[bytes, bytes], int, Tell], None]
"""Writes all keys, given one after another, to a path that is not there or may be replaced.

Arguments: the path; the keys; the code of each library of functions by its name; the time of the state, in ms; what to
tell of what is missing. Until everything is written and on disk the path is as it was, and after an error nothing is
left beside it.
"""
