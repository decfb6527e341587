"""The four kinds of failure, and every Redis error text, once.

    CommandError            a reply: the command is a rejection, the partition goes on
    EventError              poison: the record becomes a dead letter, the partition goes on
    CorruptionError         stored bytes are not what was written: the partition stops
    StateMismatchError      a state directory does not fit what it is opened with: it is not opened
    PartitionStoppedError   one of our own bugs, or a rule that this engine does not know: the partition stops

Any other exception that leaves `engine` is a bug of ours.
"""

from __future__ import annotations


class CommandError(Exception):
    """An error reply. `message` starts with its code, such as `ERR` or `WRONGTYPE`, as Redis sends it after `-`.

    Where it repeats bytes of a request that are not UTF-8, they stand in it as Python's `surrogateescape` writes them.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class EventError(Exception):
    """A record that can never be applied, whoever reads it: it goes to the dead letters with `reason`."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class CorruptionError(Exception):
    """Stored bytes that cannot be what was written. `slotlog replay` rebuilds the state from the log."""


class StoreBusyError(Exception):
    """The store refused a write before it wrote anything, in a write stall: the one failed write to try again."""


class StateMismatchError(Exception):
    """The state directory belongs to another topic, partition, layout or format than the one it is opened with."""


class PartitionStoppedError(Exception):
    """A record that the engine could not apply because of a bug or a newer rule; everything before it is unharmed.

    Attributes:
        offset: the record that stopped the partition.
        cause: what was raised.
    """

    def __init__(self, offset: int, name: bytes, cause: BaseException) -> None:
        command = name.decode(errors="backslashreplace")
        super().__init__(f"offset {offset} ({command}) cannot be applied: {type(cause).__name__}: {cause}")
        self.offset = offset
        self.cause = cause


WRONG_TYPE = "WRONGTYPE Operation against a key holding the wrong kind of value"
SYNTAX = "ERR syntax error"
NOT_AN_INTEGER = "ERR value is not an integer or out of range"
NOT_A_FLOAT = "ERR value is not a valid float"
INCREMENT_OVERFLOW = "ERR increment or decrement would overflow"
DECREMENT_OVERFLOW = "ERR decrement would overflow"
INCREMENT_NAN = "ERR increment would produce NaN or Infinity"
VALUE_NAN = "ERR value is NaN or Infinity"
HASH_VALUE_NOT_AN_INTEGER = "ERR hash value is not an integer"
HASH_VALUE_NOT_A_FLOAT = "ERR hash value is not a float"
NO_SUCH_KEY = "ERR no such key"
INDEX_OUT_OF_RANGE = "ERR index out of range"
OFFSET_OUT_OF_RANGE = "ERR offset is out of range"
OUT_OF_RANGE_POSITIVE = "ERR value is out of range, must be positive"
STRING_TOO_LONG = "ERR string exceeds maximum allowed size (proto-max-bulk-len)"
MIN_MAX_NOT_A_FLOAT = "ERR min or max is not a float"
MIN_MAX_NOT_A_STRING_RANGE = "ERR min or max not valid string range item"
SCORE_NAN = "ERR resulting score is not a number (NaN)"
EXPIRE_CONDITIONS_NX = "ERR NX and XX, GT or LT options at the same time are not compatible"
EXPIRE_CONDITIONS_GT_LT = "ERR GT and LT options at the same time are not compatible"
EXEC_TOO_LARGE = "ERR the transaction has written too much already (64 MiB of string values)"
CROSS_SLOT = "CROSSSLOT Keys in request don't hash to the same slot"


def unknown_command(name: bytes) -> str:
    """The text for a command that is not there. Redis repeats its arguments as well; they may be secrets."""
    shown = name.partition(b"\0")[0][:128].decode(errors="backslashreplace")
    return f"ERR unknown command '{shown}'".replace("\r", " ").replace("\n", " ")


def wrong_arity(name: str) -> str:
    """The text for a wrong number of arguments of the command `name` (lower case)."""
    return f"ERR wrong number of arguments for '{name}' command"


def invalid_expire(name: str) -> str:
    """The text for an expire time of zero, below it or beyond the range, in the command `name` (lower case)."""
    return f"ERR invalid expire time in '{name}' command"


def unsupported_option(option: bytes) -> str:
    """The text for an unknown condition of EXPIRE: the option up to its first NUL, its line ends made harmless."""
    shown = option.partition(b"\0")[0].decode(errors="surrogateescape")
    return f"ERR Unsupported option {shown}".rstrip("\r\n").replace("\r", " ").replace("\n", " ")
