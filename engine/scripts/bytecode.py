"""Rewrites compiled Lua 5.1 chunks: calls stay in the script's frame, and texts that are put together are charged.

Tail calls become ordinary ones. In Redis `return redis.call(…)` calls a C function, which leaves the frame of the
script where it is. Here the same function is one of Lua. A tail call of it replaces that frame, and with it the line
that the text of an error begins with.

Behind each `..` stands a call of a function that gets the text. The operator itself counts as one instruction, however
long the text is. The function is the last upvalue of each function of the chunk that has such a call, or has such a
function in it. Whoever loads the chunk sets the one of its outermost function.

The format is that of `ldump.c` and `lopcodes.h` of Lua 5.1. An instruction has 32 bits, from the low ones on the opcode
(6), A (8), C (9), B (9); Bx is C and B, and sBx is Bx with 131,071 for 0.
"""

from __future__ import annotations

import struct
from itertools import pairwise
from typing import Final

_HEADER = b"\x1bLua\x51\x00\x01\x04\x08\x04\x08\x00"
"""Lua 5.1, little-endian; int 4 bytes, size_t 8, instruction 4, number 8 and a double."""

_INT: Final = struct.Struct("<i")
_INTS: Final = struct.Struct("<ii")
_SIZE: Final = struct.Struct("<Q")

_OPCODE_MASK: Final = 0x3F
_MOVE, _GETUPVAL, _CONCAT, _JMP, _CALL, _TAIL_CALL = 0, 4, 21, 22, 28, 29
_FOR_LOOP, _FOR_PREP, _SET_LIST, _CLOSURE = 31, 32, 34, 36
_JUMPS: Final = frozenset({_JMP, _FOR_LOOP, _FOR_PREP})
_SBX_ZERO: Final = 131_071
_BX_SHIFT: Final = 14
_A_AND_OPCODE: Final = (1 << _BX_SHIFT) - 1

_STRING = 4
_CONSTANT_BYTES = {0: 0, 1: 1, 3: 8}
"""By type: nil, boolean, number. A string says its length."""

_UPVALUE_NAME: Final = b"(charged)\0"


class BytecodeError(ValueError):
    """These bytes are no chunk that Lua 5.1 on a 64-bit little-endian machine writes."""


def rewritten(dump: bytes) -> bytes:
    """Return `dump`, a result of `string.dump`, with calls for tail calls, and a call behind each `..`.

    What a program does stays the same. A function that calls itself by `return f()` needs a frame for each call.
    Where the program has a `..`, the function that is loaded has one upvalue: it is called with each text.

    Raises:
        BytecodeError: `dump` is no whole chunk of Lua 5.1, or one of another kind of machine.
    """
    if not dump.startswith(_HEADER):
        raise BytecodeError("not a chunk of Lua 5.1 of a 64-bit little-endian machine")
    reader = _Reader(dump)
    function = reader.function()
    if reader.at != len(dump):
        raise BytecodeError(f"the chunk ends at byte {reader.at} of {len(dump)}")
    out = bytearray(_HEADER)
    function.rewrite()
    function.write(out)
    return bytes(out)


class _Function:
    """One function of a chunk.

    Attributes:
        head: source, first and last line, as they stand there.
        upvalues, stack: how many upvalues and registers it has.
        parameters: their number, and a flag for `...`.
        code: instructions.
        constants: how many, and themselves, as they stand there.
        inner: the functions in it.
        lines: of each instruction; empty if it was left out.
        variables: name as it stands there, first instruction and the one behind the last.
        names: of upvalues, as they stand there.
        charges: whether it has the upvalue that is called with texts.
    """

    def __init__(self) -> None:
        self.head = self.parameters = self.constants = b""
        self.upvalues = self.stack = 0
        self.code: list[int] = []
        self.lines: list[int] = []
        self.inner: list[_Function] = []
        self.variables: list[tuple[bytes, int, int]] = []
        self.names: list[bytes] = []
        self.charges = False

    def rewrite(self) -> None:
        """Make the changes in it and in the functions inside."""
        for function in self.inner:
            function.rewrite()
        code = self.code
        self.charges = any(function.charges for function in self.inner) or any(
            word & _OPCODE_MASK == _CONCAT for word in code
        )
        if self.charges:
            self._insert()
            self.upvalues += 1
            self.names.append(_SIZE.pack(len(_UPVALUE_NAME)) + _UPVALUE_NAME)
        self._end_tail_calls()

    def _end_tail_calls(self) -> None:
        code, at = self.code, 0
        while at < len(code):
            word = code[at]
            if word & _OPCODE_MASK == _TAIL_CALL:
                code[at] = word - _TAIL_CALL + _CALL
            at += 1 + _data_words(word)

    def _insert(self) -> None:
        """Add the calls, and what the closures of inner functions need; then mend what names places in the code."""
        old, code, places, jumps = self.code, list[int](), list[int](), list[int]()
        at = 0
        while at < len(old):
            word = old[at]
            if word & _OPCODE_MASK in _JUMPS:
                jumps.append(at)
            inner = self.inner[word >> _BX_SHIFT] if word & _OPCODE_MASK == _CLOSURE else None
            following = _data_words(word) if inner is None else inner.upvalues - inner.charges
            for _ in range(1 + following):
                places.append(len(code))
                code.append(old[at])
                at += 1
            if inner is not None and inner.charges:
                code.append(_instruction(_GETUPVAL, 0, self.upvalues))
            elif word & _OPCODE_MASK == _CONCAT:
                code.extend(self._charged(word))
        places.append(len(code))
        for at in jumps:
            target = places[at + 1 + (old[at] >> _BX_SHIFT) - _SBX_ZERO]
            sbx = target - places[at] - 1 + _SBX_ZERO
            code[places[at]] = (old[at] & _A_AND_OPCODE) | sbx << _BX_SHIFT
        self.code = code
        if self.lines:
            counts = [end - start for start, end in pairwise(places)]
            self.lines = [line for line, count in zip(self.lines, counts, strict=True) for _ in range(count)]
        self.variables = [(name, places[start], places[end]) for name, start, end in self.variables]

    def _charged(self, word: int) -> tuple[int, int, int]:
        """The call behind a `..`, in the register of its last operand and the next: nobody needs them any more."""
        text, free = word >> 6 & 0xFF, word >> 14 & 0x1FF
        if text >= free:
            raise BytecodeError(f"the operands of a concatenation end in register {free}, its result is in {text}")
        self.stack = max(self.stack, free + 2)
        return (
            _instruction(_GETUPVAL, free, self.upvalues),
            _instruction(_MOVE, free + 1, text),
            _instruction(_CALL, free, 2, 1),
        )

    def write(self, out: bytearray) -> None:
        """Add it to a chunk."""
        out += self.head
        out += bytes((self.upvalues, *self.parameters, self.stack))
        out += struct.pack(f"<i{len(self.code)}I", len(self.code), *self.code)
        out += self.constants
        out += _INT.pack(len(self.inner))
        for function in self.inner:
            function.write(out)
        out += struct.pack(f"<i{len(self.lines)}i", len(self.lines), *self.lines)
        out += _INT.pack(len(self.variables))
        for name, start, end in self.variables:
            out += name + _INTS.pack(start, end)
        out += _INT.pack(len(self.names)) + b"".join(self.names)


class _Reader:
    """The bytes of a chunk, and how far it is read."""

    def __init__(self, dump: bytes) -> None:
        self.at = len(_HEADER)
        self._dump = dump

    def function(self) -> _Function:
        """Read a function and those inside it."""
        function = _Function()
        function.head = self._string() + self._take(2 * _INT.size)
        function.upvalues, *parameters, function.stack = self._take(4)
        function.parameters = bytes(parameters)
        function.code = self._words("I")
        start = self.at
        for _ in range(self._int()):
            self._constant()
        function.constants = self._dump[start : self.at]
        function.inner = [self.function() for _ in range(self._int())]
        function.lines = self._words("i")
        function.variables = [(self._string(), self._int(), self._int()) for _ in range(self._int())]
        function.names = [self._string() for _ in range(self._int())]
        return function

    def _constant(self) -> None:
        kind = self._take(1)[0]
        if kind == _STRING:
            self._string()
        elif kind in _CONSTANT_BYTES:
            self._take(_CONSTANT_BYTES[kind])
        else:
            raise BytecodeError(f"a constant of the unknown type {kind}")

    def _string(self) -> bytes:
        start = self.at
        self._take(_SIZE.unpack(self._take(_SIZE.size))[0])
        return self._dump[start : self.at]

    def _words(self, letter: str) -> list[int]:
        """How many there are, and themselves, each of 32 bits."""
        count = self._int()
        return list(struct.unpack(f"<{count}{letter}", self._take(4 * count)))

    def _int(self) -> int:
        number: int = _INT.unpack(self._take(_INT.size))[0]
        return number

    def _take(self, size: int) -> bytes:
        start = self.at
        self.at += size
        if self.at > len(self._dump):
            raise BytecodeError(f"the chunk has {len(self._dump)} bytes and needs {self.at}")
        return self._dump[start : self.at]


def _instruction(opcode: int, a: int, b: int, c: int = 0) -> int:
    return opcode | a << 6 | c << 14 | b << 23


def _data_words(word: int) -> int:
    """How many words behind an instruction are its data: of a SETLIST whose C is 0, one."""
    return int(word & _OPCODE_MASK == _SET_LIST and not word >> 14 & 0x1FF)
