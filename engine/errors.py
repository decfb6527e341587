"""Every kind of error, and the text of every Redis error.

    CommandError            a reply: the command is a rejection, the partition goes on
    EventError              poison: the record becomes a dead letter, the partition goes on (slotlog/shared/errors.py)
    CorruptionError         stored bytes are not what was written: the partition stops
    StoreBusyError          the store is behind and wrote nothing: the caller waits, and tries again
    StoreFullError          its disk has no room: nothing was written; the caller waits, and opens the store again
    IndexUnavailableError   an index outside of the store cannot be reached: the caller waits, and opens the store again
    StateMismatchError      a state directory does not fit what it is opened with: it is not opened
    PartitionStoppedError   one of our own bugs, or a rule that this engine does not know: the partition stops

Any other exception that leaves `engine` is a bug of ours.
"""

from __future__ import annotations

from slotlog.shared.errors import PicklableError, QuotingError
from slotlog.shared.shown_errors import named_error


class CommandError(QuotingError):
    """An error reply. `message` starts with its code, such as `ERR` or `WRONGTYPE`, as Redis sends it after `-`.

    Where it repeats bytes of a request that are not UTF-8, they stand in it as Python's `surrogateescape` writes them.

    Attributes:
        is_counted: it is the error of a command inside a script, which is counted there (engine/apply/script_calls.py).
        ends_with_name: its text ends with the command's name in upper case. Redis repeats it as a client has sent it.
    """

    is_counted = False
    ends_with_name = False

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def as_sent(self, command: list[bytes]) -> CommandError:
        """The same for a client that has sent it in these words."""
        if not self.ends_with_name:
            return self
        return CommandError(self.message[: -len(command[0])] + command[0].decode())


def counted_error(message: str) -> CommandError:
    """The error of a script that is the one of a command which it called."""
    error = CommandError(message)
    error.is_counted = True
    return error


class DueError(Exception):
    """A key is due by the wall clock, but not by the log's: append a TICK, and read again."""


class ClockSetBackError(Exception):
    """No failure: how SETCLOCK asks the machine to set the partition's clock back to `to_ms`."""

    def __init__(self, to_ms: int) -> None:
        super().__init__(to_ms)
        self.to_ms = to_ms


class DueLeftError(Exception):
    """A record sets the clock back: commit what is before it, delete what is due, apply it again."""


class ScriptAgainError(Exception):
    """No failure: a script met a limit, and is to be tried anew. Roll back, and apply the records again.

    Attributes:
        offset: of its record.
    """

    def __init__(self, offset: int) -> None:
        super().__init__(offset)
        self.offset = offset


class MachineHeldError(Exception):
    """A machine is suspended in a command or commit: nobody else may enter it until that has ended."""


class CorruptionError(Exception):
    """Stored bytes that cannot be what was written. `slotlog replay` rebuilds the state from the log."""


class StoreBusyError(Exception):
    """The store refused a write before it wrote anything, in a write stall: the one failed write to try again."""


class StoreFullError(OSError):
    """The store's disk has no room: nothing was written, what was written before is read.

    It takes no write until it is opened again, which needs room. Or it is this opening that has found none.
    """


class IndexUnavailableError(OSError):
    """An index outside of the store cannot be reached.

    Whether it has the last batch, the next opening of the store finds out.
    """


class StateMismatchError(Exception):
    """The state directory belongs to another topic, partition, layout or format than the one it is opened with."""


class UnknownRulesError(Exception):
    """The log asks for rules that this engine does not know, so it cannot apply later records."""


class PartitionStoppedError(PicklableError):
    """A bug or a newer rule: the engine could not apply a record. Everything before it is unharmed.

    Attributes:
        offset: the record that stopped the partition.
        cause: what was raised.
    """

    def __init__(self, offset: int, name: bytes, cause: BaseException) -> None:
        command = name.decode(errors="backslashreplace")
        super().__init__(f"offset {offset} ({command}) cannot be applied: {named_error(cause)}")
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
OUT_OF_MEMORY = "OOM command not allowed when used memory > 'maxmemory'."
NUMKEYS_INVALID = "ERR invalid numkeys value or out of range"
NUMFIELDS_INVALID = "ERR numfields should be greater than 0 and match the provided number of fields"
FIELDS_MISSING = "ERR Mandatory argument FIELDS is missing or not at the right position"
FIELDS_NOT_MATCHING = "ERR The `numfields` parameter must match the number of arguments"
NUMFIELDS_TOO_SMALL = "ERR Parameter `numFields` should be greater than 0"
NUMFIELDS_NOT_POSITIVE = "ERR Number of fields must be a positive integer"
FIELD_TIME_NEGATIVE = "ERR invalid expire time, must be >= 0"
NO_SUCH_MEMBER = "ERR could not decode requested zset member"
NUMKEYS_NOT_POSITIVE = "ERR numkeys should be greater than 0"
INVALID_CURSOR = "ERR invalid cursor"
COUNT_NOT_POSITIVE = "ERR count should be greater than 0"
DB_OUT_OF_RANGE = "ERR DB index is out of range"
TOO_MANY_WATCHES = "ERR a session cannot watch more than 1024 keys"
OUT_OF_LONG_RANGE = "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807"
VALUE_OUT_OF_RANGE = "ERR value is out of range"
TOO_MANY_KEYS = "ERR Number of keys can't be greater than number of args"
LIMIT_NEGATIVE = "ERR LIMIT can't be negative"
SAME_OBJECT = "ERR source and destination objects are the same"
NOT_A_HLL = "WRONGTYPE Key is not a valid HyperLogLog string value."
INVALID_HLL = "INVALIDOBJ Corrupted HLL object detected"
RADIUS_NOT_NUMERIC = "ERR need numeric radius"
RADIUS_NEGATIVE = "ERR radius cannot be negative"
WIDTH_NOT_NUMERIC = "ERR need numeric width"
HEIGHT_NOT_NUMERIC = "ERR need numeric height"
BOX_NEGATIVE = "ERR height or width cannot be negative"
UNKNOWN_UNIT = "ERR unsupported unit provided. please use M, KM, FT, MI"
VERTICES_NOT_AN_INTEGER = "ERR invalid number of vertices"
TOO_FEW_VERTICES = "ERR GEOSEARCH BYPOLYGON must have at least 3 vertices"
COUNT_TOO_SMALL = "ERR COUNT must be > 0"
ANY_WITHOUT_COUNT = "ERR the ANY argument requires COUNT argument"
WEIGHT_NOT_A_FLOAT = "ERR weight value is not a float"
BIT_OFFSET = "ERR bit offset is not an integer or out of range"
BIT_NOT_A_BIT = "ERR bit is not an integer or out of range"
BIT_NOT_ZERO_OR_ONE = "ERR The bit argument must be 1 or 0."
BITOP_NOT_ONE_SOURCE = "ERR BITOP NOT must be called with a single source key."
BITFIELD_TYPE = "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is."
BITFIELD_OVERFLOW = "ERR Invalid OVERFLOW type specified"
BITFIELD_ONLY_GET = "ERR BITFIELD_RO only supports the GET subcommand"
LCS_BOTH = "ERR If you want both the length and indexes, please just use IDX."
LCS_NOT_STRINGS = "ERR The specified keys must contain string values"
LCS_TOO_LARGE = "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len"
NO_SCRIPT = "NOSCRIPT No matching script."
BUSY_KEY = "BUSYKEY Target key name already exists."
DUMP_VERSION = "ERR DUMP payload version or checksum are wrong"
DUMP_FORMAT = "ERR Bad data format"
DUMP_UNSUPPORTED = "ERR values of modules cannot be restored"
RESTORE_TOO_LARGE = "ERR the value is too large to be restored by one command (1048576 elements or 64 MiB)"
RESTORE_TTL = "ERR Invalid TTL value, must be >= 0"
RESTORE_IDLETIME = "ERR Invalid IDLETIME value, must be >= 0"
RESTORE_FREQ = "ERR Invalid FREQ value, must be >= 0 and <= 255"
REPLY_TOO_LARGE = "ERR the reply would be larger than 256 MiB: ask for parts of it"


def invalid_expire(name: str) -> str:
    """The text for an expire time of zero, below it or beyond the range, in the command `name` (lower case)."""
    return f"ERR invalid expire time in '{name}' command"


def no_input_key(name: str) -> str:
    """The text for a `numkeys` below 1 of the command `name` (lower case)."""
    return f"ERR at least 1 input key is needed for '{name}' command"


def unsupported_option(option: bytes) -> str:
    """The text for an unknown condition of EXPIRE."""
    return _one_line(f"ERR Unsupported option {_shown(option)}".rstrip("\r\n"))


def foreign_pattern(option: str) -> str:
    """The text for a pattern of SORT's `option` that may read keys of other slots."""
    return (
        f"ERR {option} option of SORT denied in Cluster mode when keys formed by the pattern may be in different slots."
    )


def hidden_pattern(option: str) -> str:
    """The text for a pattern of SORT's `option` by a user who may not read every key."""
    return f"ERR {option} option of SORT denied due to insufficient ACL permissions."


def invalid_position(longitude: float, latitude: float) -> str:
    """The text for a position that is not on the map."""
    return f"ERR invalid longitude,latitude pair {longitude:f},{latitude:f}"


def not_storable(what: str) -> str:
    """The text for a search that stores what it finds and should show it as well."""
    return f"ERR {what} is not compatible with WITHDIST, WITHHASH and WITHCOORD options"


def one_of(what: str, name: str) -> CommandError:
    """The error of a search, the command `name`, without a middle or without a shape."""
    error = CommandError(f"ERR exactly one of {what} can be specified for {name}")
    error.ends_with_name = True
    return error


def quoted(word: bytes) -> str:
    """A word as an error of Redis repeats it: up to its first NUL, in one line."""
    return _one_line(_shown(word))


def _shown(word: bytes) -> str:
    """A word as Redis repeats it: up to its first NUL."""
    return word.partition(b"\0")[0].decode(errors="surrogateescape")


def _one_line(text: str) -> str:
    return text.replace("\r", " ").replace("\n", " ")
