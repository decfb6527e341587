"""Libraries in the state: what FUNCTION LOAD has brought, and which functions FCALL finds in it.

    CF system   library/[name]  ->  [functions:4] function … [code]
                function            [flags:1][length:4][name][described:1] and, if it is 1, [length:4][description]

The functions stand in the order of their names. They are what the code registers, so that nothing has to run before a
function is found. All libraries are in memory, as in Redis.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha1
from struct import Struct
from struct import error as StructError  # noqa: N812 - the module's own name, `error`, says nothing here
from typing import Final, NamedTuple

from engine.errors import CorruptionError
from engine.limits import FUNCTIONS_MAX, LIBRARIES_BYTES_MAX
from engine.store.store import SYSTEM_CF, Changes, Store
from engine.values.encoding import U32, prefix_end

PREFIX: Final = b"library/"
_HEAD: Final = Struct(">BI")


class Function(NamedTuple):
    """One function of a library.

    Attributes:
        name: as it was registered. FCALL finds it in any case.
        description: None where it has none.
        flags: `engine.commands.scripting.shebang.FLAGS`, by their places there, one bit each.
    """

    name: bytes
    description: bytes | None
    flags: int


class Library(NamedTuple):
    """One library.

    Attributes:
        code: as it was sent.
        functions: in the order of their names.
        sha: SHA-1 of the code, in lower-case hexadecimal: the compiled library is kept under it.
    """

    code: bytes
    functions: tuple[Function, ...]
    sha: bytes


class Found(NamedTuple):
    """A function, with its library."""

    library: Library
    function: Function


def library_of(code: bytes, functions: Iterable[Function]) -> Library:
    """The library of that code, which registers these functions."""
    sha = sha1(code, usedforsecurity=False).hexdigest().encode()
    return Library(code, tuple(sorted(functions, key=lambda function: function.name)), sha)


def pack(library: Library) -> bytes:
    """The value of a library's record."""
    parts = [U32.pack(len(library.functions))]
    for name, description, flags in library.functions:
        parts += (_HEAD.pack(flags, len(name)), name)
        parts += (b"\0",) if description is None else (b"\1", U32.pack(len(description)), description)
    return b"".join((*parts, library.code))


def parse_record(value: bytes) -> Library | None:
    """The library of a record; None when it is none."""
    try:
        (count,), at = U32.unpack_from(value), U32.size
        functions = []
        for _ in range(count):
            function, at = _parse_function(value, at)
            functions.append(function)
    except StructError:
        return None
    library = library_of(value[at:], functions)
    return library if functions and pack(library) == value else None


def _parse_function(value: bytes, at: int) -> tuple[Function, int]:
    """The function at that place, and where it ends."""
    flags, length = _HEAD.unpack_from(value, at)
    at += _HEAD.size
    name, at = value[at : at + length], at + length
    described, at = value[at : at + 1], at + 1
    if described != b"\1":
        return Function(name, None, flags), at
    (length,), at = U32.unpack_from(value, at), at + U32.size
    return Function(name, value[at : at + length], flags), at + length


class Libraries:
    """The libraries of one partition, those of the current batch included.

    Attributes:
        by_name: in no order that means anything.
        bytes: size of their records.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.by_name: dict[bytes, Library] = {}
        self.bytes = 0
        self._functions: dict[bytes, Found] = {}
        self._before: tuple[dict[bytes, Library], dict[bytes, Found], int] | None = None
        self._load()

    @property
    def function_count(self) -> int:
        """Of all libraries."""
        return len(self._functions)

    @property
    def codes(self) -> dict[bytes, bytes]:
        """The code of each library, in the order of their names."""
        return {name: library.code for name, library in sorted(self.by_name.items())}

    def has_room(self, brought: Iterable[Library], gone: Iterable[Library]) -> bool:
        """Whether some libraries may be kept, when others go."""
        functions, size = self.function_count, self.bytes
        for libraries, sign in ((brought, 1), (gone, -1)):
            for library in libraries:
                functions += sign * len(library.functions)
                size += sign * len(pack(library))
        return functions <= FUNCTIONS_MAX and size <= LIBRARIES_BYTES_MAX

    def find(self, function: bytes) -> Found | None:
        """The function of that name, in any case; None when there is none."""
        return self._functions.get(function) or self._functions.get(function.lower())

    def keep(self, name: bytes, library: Library, changes: Changes) -> None:
        """Keep a library, whose name and functions are new."""
        self._begin()
        self._put(name, library)
        changes.of(SYSTEM_CF)[PREFIX + name] = pack(library)

    def remove(self, name: bytes, changes: Changes) -> None:
        """Forget a library that is there."""
        self._begin()
        library = self.by_name.pop(name)
        self.bytes -= len(pack(library))
        for function in library.functions:
            del self._functions[function.name.lower()]
        changes.of(SYSTEM_CF)[PREFIX + name] = None

    def reset(self, *, written: bool) -> None:
        """As `Scripts.reset`."""
        if self._before is not None and not written:
            self.by_name, self._functions, self.bytes = self._before
        self._before = None

    def image(self) -> object:
        """What is kept, to compare with another image."""
        return dict(self.by_name)

    # ------------------------------------------------------------------ inside

    def _begin(self) -> None:
        """Remember how all are, before the first change of a batch."""
        if self._before is None:
            self._before = dict(self.by_name), dict(self._functions), self.bytes

    def _load(self) -> None:
        """Read all of them from the store."""
        for name, value in self._store.scan(SYSTEM_CF, PREFIX, prefix_end(PREFIX)):
            library = parse_record(value)
            if library is None:
                message = f"library record {name.hex()} cannot be read"
                raise CorruptionError(message)
            self._put(name[len(PREFIX) :], library)

    def _put(self, name: bytes, library: Library) -> None:
        self.by_name[name] = library
        self.bytes += len(pack(library))
        for function in library.functions:
            self._functions[function.name.lower()] = Found(library, function)
