r"""RESP requests without I/O: bytes in, commands out.

    request    =  multibulk | inline
    multibulk  =  "*" COUNT CRLF  COUNT * ( "$" LENGTH CRLF  LENGTH bytes CRLF )      COUNT below 1: no command
    inline     =  arguments between blanks, "…\n\x0a…" or '…' around what has blanks in it, then LF or CRLF

    *2\r\n$3\r\nGET\r\n$1\r\nk\r\n        GET k\r\n        GET "\x6b"\n        are the same command

COUNT and LENGTH are decimal without plus sign or leading zeros. RESP2 and RESP3 requests are the same. What is accepted
and every error text are those of valkey-server 9.1, which tests/resp/wire/test_protocol.py asks; where its answer
depends on how the bytes were cut into packets, ours is the one it gives when they come byte by byte.

Three ways lead through the bytes, to the same result. What is usual is parsed in C, where that is there: 0.12 us
for a GET. The fast path splits the rest at CRLF and takes a command whose tokens look as they should, or in one step a
pipeline of commands with equally many arguments. Measured on a shared core with CPython 3.11, 16 commands at a time:
GET 0.5 us, SET 0.65 us (one by one 0.9 and 1.0), HSET of ten pairs 2.8 us a command. All else goes to the strict one,
command by command: values with CRLF in them, what is unfinished, inline commands, errors, and whatever a client sends
before it has authenticated. It takes 4 us for a GET and 6 us for a SET, and goes over long values once.
"""

from __future__ import annotations

import itertools
from typing import Final, NoReturn

from engine import native
from engine.values.inline import split_inline
from engine.values.numbers import parse_int
from slotlog.shared.limits import RECORD_BYTES_MAX

BULK_BYTES_MAX: Final = 512 * 1024 * 1024
"""Of one argument: the default of Redis' `proto-max-bulk-len`."""

LINE_BYTES_MAX: Final = 64 * 1024
"""Of an inline command and of a count or length, without its end."""

COUNT_MAX: Final = (1 << 31) - 1
UNAUTHENTICATED_COUNT_MAX: Final = 10
UNAUTHENTICATED_BULK_BYTES_MAX: Final = 16 * 1024

_CRLF: Final = b"\r\n"
_CARRIAGE_RETURN: Final = ord("\r")
_LINE_FEED: Final = ord("\n")
_STAR: Final = ord("*")
_DOLLAR: Final = ord("$")


class ProtocolError(Exception):
    """Input that is no request. The connection is closed after the reply `-ERR Protocol error: ` and `message`.

    Attributes:
        message: With bytes of the request as Python's `surrogateescape` writes them.
        silent: Close without any reply: a browser was made to talk to us.
    """

    def __init__(self, message: str, *, silent: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.silent = silent


class _Unfinished(Exception):  # noqa: N818 - not an error: the rest has not come yet
    """The bytes end within a line."""


class _Heads(dict[int, bytes]):
    """The length header of a value by its length; long ones are not kept."""

    def __missing__(self, length: int) -> bytes:
        return b"$%d" % length


QUICK_COUNT_MAX: Final = 1024  # commands with more arguments take the strict way
_ALIKE_MIN: Final = 4  # fewer commands are faster one by one
_ALIKE_TOKENS_MIN: Final = 20  # as many as the shortest ones with a key have
_COUNTS: Final = {b"*%d" % count: count for count in range(1, QUICK_COUNT_MAX + 1)}
head_of: Final = _Heads((length, b"$%d" % length) for length in range(1024)).__getitem__
"""The length header of a value of so many bytes, without its CRLF."""


def _spellings(word: str) -> list[bytes]:
    """`word` in each mixture of lower and upper case."""
    return ["".join(letters).encode() for letters in itertools.product(*({c.lower(), c.upper()} for c in word))]


# How a HTTP request begins, and the header that each has: a page in the browser of somebody inside the network could
# otherwise make it send commands, as the body of a request.
_HTTP: Final = frozenset((*_spellings("post"), *_spellings("host:")))


class TooLarge(list[bytes]):
    """Stands for a command whose arguments were too long together: nothing of them was kept. It has no name."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__([b""])


class Parser:
    """The requests of one connection.

    Args:
        bulk_bytes_max: Of one argument.
        command_bytes_max: Of all arguments of a command. What a longer one announces is passed over as it comes.
        authenticated: Whether the larger limits hold.

    Attributes:
        authenticated, bulk_bytes_max, command_bytes_max: As above; the owner may set the first two when they change.
        buffered_bytes: Of the input, what has not become a command yet.
        is_between: The next byte begins a command.
        error: What is wrong with the input, once something is. What came before it has been given out.
        held: Not authenticated, and behind the commands just given out comes one that is too large for that: when they
            have been executed, and perhaps were an AUTH, `feed(b"")` goes on. Never set once authenticated.
    """

    __slots__ = (
        "_announced_bytes", "_args", "_args_bytes", "_hot", "_missing", "_passing_bytes", "_tail", "_value",
        "_value_bytes", "authenticated", "buffered_bytes", "bulk_bytes_max", "command_bytes_max", "error", "held",
        "is_between",
    )  # fmt: skip

    def __init__(
        self,
        *,
        bulk_bytes_max: int = BULK_BYTES_MAX,
        command_bytes_max: int = RECORD_BYTES_MAX,
        authenticated: bool = False,
    ) -> None:
        self.authenticated = authenticated
        self.bulk_bytes_max = bulk_bytes_max
        self.command_bytes_max = command_bytes_max
        self.error: ProtocolError | None = None
        self._hot = native.chosen()
        self.held, self.buffered_bytes, self.is_between = False, 0, True
        self._forget()

    @property
    def argument_bytes(self) -> int:
        """Of `buffered_bytes`, what whole arguments of a command that is under way take, with their headers."""
        return self._args_bytes

    @property
    def free_bytes(self) -> int:
        """How much memory is held for more input than there is."""
        buffers = (self._tail,) if self._value is None else (self._tail, self._value)
        return sum([max(0, buffer.__alloc__() - len(buffer)) for buffer in buffers])

    def feed(self, data: bytes) -> list[list[bytes]]:
        """The commands that `data` completes, each with its name first. None after an error."""
        commands: list[list[bytes]] = []
        if self.error is not None:
            return commands
        try:
            if self._tail or self._missing or not self._may_take_fast_path(len(data)):
                self._parse(data, commands)
            else:
                self._take_fast_path(data, commands)
                self.buffered_bytes = 0
                return commands
        except _Unfinished:
            pass
        except ProtocolError as error:
            self.error = error
            self._forget()
        self.is_between = not (self._tail or self._missing or self.error)
        self.buffered_bytes = len(self._tail) + self._args_bytes + (0 if self._value is None else len(self._value))
        return commands

    def _forget(self) -> None:
        self._tail = bytearray()  # the unfinished line that the input ended with; while held: all the rest
        self._missing = 0  # arguments of the command that is under way
        self._args: list[bytes] = []  # those that are there
        self._args_bytes = 0  # of the input, with their headers
        self._value: bytearray | None = None  # the argument that has begun
        self._value_bytes = 0  # how long it will be with its CRLF
        self._announced_bytes = 0  # of the arguments so far, as their headers have it
        self._passing_bytes = 0  # of an argument of a command that is too large: what is still to be passed over

    def _parse(self, data: bytes, commands: list[list[bytes]]) -> None:
        if self._tail:
            if not self.held and self._line_goes_on(data):
                self._tail += data
                return
            data, self._tail = bytes(self._tail) + data, bytearray()
        self.held = False
        position = self._strict(data, 0, commands) if self._missing else 0
        if self._may_take_fast_path(len(data)):
            self._take_fast_path(data[position:] if position else data, commands)
        else:
            while position < len(data):
                position = self._strict(data, position, commands)

    def _may_take_fast_path(self, size: int) -> bool:
        """Whether no argument of so many bytes in all can be over a limit: the fast path does not look."""
        return self.authenticated and size <= self.bulk_bytes_max and size <= self.command_bytes_max

    def _line_goes_on(self, data: bytes) -> bool:
        """Whether `data` neither ends the unfinished line nor makes it too long: no need to look at it all again."""
        return (
            b"\n" not in data
            and b"\r" not in data
            and self._tail[-1] != _CARRIAGE_RETURN
            and len(self._tail) + len(data) <= LINE_BYTES_MAX
        )

    def _take_fast_path(self, data: bytes, commands: list[list[bytes]]) -> None:
        """All commands of `data`, which begins with one, for authenticated clients."""
        if self._hot is not None:  # the same for what is as it should be, up to where it is not
            position = self._hot.parse_commands(data, commands, QUICK_COUNT_MAX)
            if position == len(data):
                return
            data = data[position:]
        tokens = data.split(_CRLF)
        last = len(tokens) - 1  # not followed by CRLF
        if last >= _ALIKE_TOKENS_MIN and (alike := _alike(tokens)):
            commands += alike
            return
        index = 0
        known_index, known_position = 0, 0  # a token and where in `data` it begins
        while True:
            count = _COUNTS.get(tokens[index])
            if count is not None:
                end = index + 1 + 2 * count
                if end <= last:
                    args = tokens[index + 2 : end : 2]
                    # This looks at header and length of all arguments without a loop of Python's.
                    if list(map(head_of, map(len, args))) == tokens[index + 1 : end : 2] and args[0] not in _HTTP:
                        commands.append(args)
                        index = end
                        continue
            if index == last and not tokens[last]:
                return
            begin = known_position + sum(map(len, tokens[known_index:index])) + 2 * (index - known_index)
            position = begin
            while True:
                position = self._strict(data, position, commands)
                if position == len(data):
                    return
                while begin < position:
                    begin += len(tokens[index]) + 2
                    index += 1
                if begin == position:  # else an inline command ended with LF alone, within a token
                    break
            known_index, known_position = index, begin

    def _strict(self, data: bytes, position: int, commands: list[list[bytes]]) -> int:
        """Parse one command, or go on with the one under way, or skip one that is none; the position behind it.

        Raises:
            _Unfinished: `data` ended before; what there is has been taken over.
            ProtocolError: It is wrong.
        """
        if not self._missing:
            if data[position] != _STAR:
                return self._inline(data, position, commands)
            position = self._count(data, position, commands)
        while self._missing:
            if self._value is None:
                position = self._begin_value(data, position, commands)
            position = self._go_on_with_value(data, position)
            if not self._missing:
                args, self._args, self._args_bytes = self._args, [], 0
                is_too_large, self._announced_bytes = self._is_too_large, 0
                commands.append(TooLarge() if is_too_large else _checked(args))
        return position

    @property
    def _is_too_large(self) -> bool:
        """Whether the command that is under way has announced more than one may have."""
        return self._announced_bytes > self.command_bytes_max

    def _count(self, data: bytes, position: int, commands: list[list[bytes]]) -> int:
        end = self._header_end(data, position, "too big mbulk count string")
        _check_line_feed(data, end)
        count = parse_int(data[position + 1 : end])
        if count is None or count > COUNT_MAX:
            raise ProtocolError("invalid multibulk length")
        if count > UNAUTHENTICATED_COUNT_MAX and not self.authenticated:
            self._hold(data, position, commands)
            raise ProtocolError("unauthenticated multibulk length")
        self._missing = max(count, 0)
        return end + 2

    def _begin_value(self, data: bytes, position: int, commands: list[list[bytes]]) -> int:
        end = self._header_end(data, position, "too big bulk count string")
        if data[position] != _DOLLAR:
            found = data[position : position + 1].decode(errors="surrogateescape")
            raise ProtocolError(f"expected '$', got '{found}'")
        _check_line_feed(data, end)
        length = parse_int(data[position + 1 : end])
        if length is None or not 0 <= length <= self.bulk_bytes_max:
            raise ProtocolError("invalid bulk length")
        if length > UNAUTHENTICATED_BULK_BYTES_MAX and not self.authenticated:
            self._hold(data, position, commands)
            raise ProtocolError("unauthenticated bulk length")
        self._value = bytearray()
        self._announced_bytes += length
        if self._is_too_large:
            self._args.clear()
            self._args_bytes = 0
            self._passing_bytes, self._value_bytes = length, 2
        else:
            self._value_bytes = length + 2
            self._args_bytes += end + 2 - position
        return end + 2

    def _go_on_with_value(self, data: bytes, position: int) -> int:
        """Take what there is of the argument that has begun, and finish it if that is all of it."""
        assert self._value is not None
        if self._passing_bytes:
            passed = min(self._passing_bytes, len(data) - position)
            self._passing_bytes -= passed
            position += passed
        end = position + self._passing_bytes + self._value_bytes - len(self._value)
        if end > len(data):
            self._value += data[position:]
            raise _Unfinished
        if self._value:
            self._value += data[position:end]
            value, line_end = bytes(memoryview(self._value)[:-2]), bytes(self._value[-2:])
        else:
            value, line_end = data[position : end - 2], data[end - 2 : end]
        if line_end != _CRLF:
            raise ProtocolError("invalid CRLF in request")
        if not self._is_too_large:
            self._args.append(value)
            self._args_bytes += self._value_bytes
        self._value = None
        self._missing -= 1
        return end

    def _inline(self, data: bytes, position: int, commands: list[list[bytes]]) -> int:
        end = data.find(b"\n", position, position + LINE_BYTES_MAX + 1)
        # As in valkey, a NUL hides the end of its line: such a line grows until it is too long.
        if end < 0 or data.find(b"\0", position, end) >= 0:
            self._wait_for_line(data, position, "too big inline request")
        line = data[position:end]
        args = split_inline(line[:-1] if line.endswith(b"\r") else line)
        if args is None:
            raise ProtocolError("unbalanced quotes in request")
        if args:
            commands.append(_checked(args))
        return end + 1

    def _header_end(self, data: bytes, position: int, too_big: str) -> int:
        """Where the CR is that ends the header at `position`; there is a byte behind it."""
        end = data.find(b"\r", position, position + LINE_BYTES_MAX + 1)
        if end < 0:
            self._wait_for_line(data, position, too_big)
        if end + 1 == len(data):
            self._tail += data[position:]
            raise _Unfinished
        return end

    def _wait_for_line(self, data: bytes, position: int, too_big: str) -> NoReturn:
        if len(data) - position > LINE_BYTES_MAX:
            raise ProtocolError(too_big)
        self._tail += data[position:]
        raise _Unfinished

    def _hold(self, data: bytes, position: int, commands: list[list[bytes]]) -> None:
        """Put off the decision about a limit until the commands before it have been executed, if there are any."""
        if commands:
            self._tail += data[position:]
            self.held = True
            raise _Unfinished


def _alike(tokens: list[bytes]) -> list[list[bytes]]:
    """The commands of a pipeline in which each has as many arguments as the first; none if it is not such a one.

    Args:
        tokens: what stands before, between and behind each CRLF.
    """
    last = len(tokens) - 1
    count = _COUNTS.get(tokens[0], 0)
    width = 1 + 2 * count
    if not count or last % width or last < _ALIKE_MIN * width or tokens[last]:
        return []
    if tokens[::width].count(tokens[0]) * width != last:
        return []
    fields = tokens[:last]
    del fields[::width]
    args = fields[1::2]
    if list(map(head_of, map(len, args))) != fields[::2] or not _HTTP.isdisjoint(args[::count]):
        return []
    each = iter(args)
    return list(map(list, zip(*[each] * count, strict=True)))


def _check_line_feed(data: bytes, carriage_return: int) -> None:
    if data[carriage_return + 1] != _LINE_FEED:
        raise ProtocolError("invalid CRLF in request")


def _checked(args: list[bytes]) -> list[bytes]:
    if args[0] in _HTTP:
        raise ProtocolError("this is no HTTP server", silent=True)
    return args
