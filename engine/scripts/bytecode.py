"""Compiled Lua 5.1 chunks without tail calls, so that an error of what a script calls names the script's line.

In Redis `return redis.call(…)` calls a C function, which leaves the frame of the script where it is. Here the same
function is one of Lua. A tail call of it replaces that frame, and with it the line that the text of an error begins
with.
The format is that of `ldump.c` of Lua 5.1.
"""

from __future__ import annotations

import struct

_HEADER = b"\x1bLua\x51\x00\x01\x04\x08\x04\x08\x00"
"""Lua 5.1, little-endian; int 4 bytes, size_t 8, instruction 4, number 8 and a double."""

_INT_BYTES = 4
_SIZE_BYTES = 8
_FUNCTION_HEAD_BYTES = 12
"""First line, last line, and the numbers of upvalues, parameters, a flag for `...`, and registers."""

_OPCODE_MASK = 0x3F
_CALL = 28
_TAIL_CALL = 29

_STRING = 4
_CONSTANT_BYTES = {0: 0, 1: 1, 3: 8}
"""By type: nil, boolean, number. A string says its length."""


class BytecodeError(ValueError):
    """These bytes are no chunk that Lua 5.1 on a 64-bit little-endian machine writes."""


def without_tail_calls(dump: bytes) -> bytes:
    """Return `dump`, a result of `string.dump`, with each tail call made an ordinary one.

    The program stays the same: behind each tail call stands a return of all its results. What differs is that a
    function which calls itself by `return f()` needs a frame for each call.

    Raises:
        BytecodeError: `dump` is no whole chunk of Lua 5.1, or one of another kind of machine.
    """
    if not dump.startswith(_HEADER):
        raise BytecodeError("not a chunk of Lua 5.1 of a 64-bit little-endian machine")
    chunk = _Chunk(dump)
    chunk.function()
    if chunk.at != len(dump):
        raise BytecodeError(f"the chunk ends at byte {chunk.at} of {len(dump)}")
    return bytes(chunk.data)


class _Chunk:
    """The bytes of a chunk, and how far it is read."""

    def __init__(self, dump: bytes) -> None:
        self.data = bytearray(dump)
        self.at = len(_HEADER)

    def function(self) -> None:
        """Read a function and those inside it, and replace their tail calls."""
        self._string()  # the source
        self._skip(_FUNCTION_HEAD_BYTES)
        self._code()
        for _ in range(self._int()):
            self._constant()
        for _ in range(self._int()):
            self.function()
        self._skip(_INT_BYTES * self._int())  # the line of each instruction
        for _ in range(self._int()):  # local variables: name, first and last instruction
            self._string()
            self._skip(2 * _INT_BYTES)
        for _ in range(self._int()):
            self._string()  # an upvalue's name

    def _code(self) -> None:
        count = self._int()
        start = self._skip(_INT_BYTES * count)
        form = struct.Struct(f"<{count}I")
        instructions = form.unpack_from(self.data, start)
        form.pack_into(
            self.data,
            start,
            *(word - _TAIL_CALL + _CALL if word & _OPCODE_MASK == _TAIL_CALL else word for word in instructions),
        )

    def _constant(self) -> None:
        kind = self.data[self._skip(1)]
        if kind == _STRING:
            self._string()
        elif kind in _CONSTANT_BYTES:
            self._skip(_CONSTANT_BYTES[kind])
        else:
            raise BytecodeError(f"a constant of the unknown type {kind}")

    def _string(self) -> None:
        self._skip(self._number(_SIZE_BYTES))

    def _int(self) -> int:
        return self._number(_INT_BYTES)

    def _number(self, size: int) -> int:
        start = self._skip(size)
        return int.from_bytes(self.data[start : start + size], "little")

    def _skip(self, size: int) -> int:
        """Go `size` bytes on, and return where they begin."""
        start = self.at
        self.at += size
        if self.at > len(self.data):
            raise BytecodeError(f"the chunk has {len(self.data)} bytes and needs {self.at}")
        return start
