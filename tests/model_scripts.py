"""The plain model's scripts and libraries of functions: those of `tests.scripted`."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from engine.proof.digest import Digest, key_digest
from engine.tables.scripts import digest_of
from tests import scripted
from tests.model_base import RejectedError

_LIBRARY_TYPE: Final = 254
_SCRIPT_TYPE: Final = 255


class Scripts:
    """The scripts of one partition: whether SCRIPT LOAD has brought them, by their source."""

    def __init__(self) -> None:
        self._loaded: dict[bytes, bool] = {}

    def keep(self, source: bytes) -> None:
        """EVAL has brought it."""
        self._loaded.setdefault(source, False)

    def load(self, source: bytes) -> None:
        """SCRIPT LOAD."""
        self._loaded[source] = True

    def flush(self) -> None:
        """SCRIPT FLUSH."""
        self._loaded.clear()

    def source(self, sha: bytes) -> bytes:
        """That of a script; RejectedError when there is none."""
        for source in self._loaded:
            if digest_of(source) == sha:
                return source
        raise RejectedError

    def digests(self) -> Iterator[Digest]:
        """Of each script."""
        for source, loaded in self._loaded.items():
            name = bytes.fromhex(digest_of(source).decode())
            yield Digest(key_digest(0, name, _SCRIPT_TYPE, 0, [bytes([loaded]), source]))


class Libraries:
    """The libraries of one partition: their code by name."""

    def __init__(self) -> None:
        self._codes: dict[bytes, bytes] = {}

    def source(self, function: bytes) -> bytes:
        """The script that does what a function does; RejectedError when there is no such function."""
        for code in self._codes.values():
            if function in scripted.LIBRARIES[code].functions:
                return scripted.LIBRARIES[code].functions[function]
        raise RejectedError

    def load(self, *words: bytes) -> None:
        """FUNCTION LOAD [REPLACE] code."""
        *replace, code = words
        self._keep([code], self._codes.keys() & {scripted.LIBRARIES[code].name} if replace else ())

    def restore(self, payload: bytes, policy: bytes) -> None:
        """FUNCTION RESTORE of one of `scripted.PAYLOADS`."""
        codes = scripted.PAYLOADS[payload]
        names = {scripted.LIBRARIES[code].name for code in codes}
        gone = {b"FLUSH": self._codes.keys(), b"REPLACE": names, b"APPEND": ()}[policy]
        self._keep(codes, gone)

    def delete(self, name: bytes) -> None:
        """FUNCTION DELETE."""
        if self._codes.pop(name, None) is None:
            raise RejectedError

    def flush(self) -> None:
        """FUNCTION FLUSH."""
        self._codes.clear()

    def digests(self) -> Iterator[Digest]:
        """Of each library."""
        for name, code in self._codes.items():
            functions = sorted(scripted.LIBRARIES[code].functions)
            heads = (struct.pack(">BI", 0, len(function)) + function + b"\0" for function in functions)
            record = struct.pack(">I", len(functions)) + b"".join(heads) + code
            yield Digest(key_digest(0, name, _LIBRARY_TYPE, 0, [record]))

    def _keep(self, codes: Sequence[bytes], gone: Iterable[bytes]) -> None:
        kept = {name: code for name, code in self._codes.items() if name not in frozenset(gone)}
        for code in codes:
            library = scripted.LIBRARIES[code]
            taken = {function for other in kept.values() for function in scripted.LIBRARIES[other].functions}
            if library.name in kept or taken & library.functions.keys():
                raise RejectedError
            kept[library.name] = code
        self._codes = kept
