"""Classifies RocksDB's failures by their text: rocksdict raises them all as one class."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from engine.errors import CorruptionError, IndexUnavailableError, StoreFullError
from engine.store.store import Get, is_damage

MEND: Final = "rebuild it with `slotlog replay --swap`"
"""What to do about damage."""

_SIGNS_OF_DAMAGE: Final = ("corruption", "checksum mismatch")
_SIGNS_OF_A_HOLDER: Final = ("Resource temporarily unavailable", "lock hold by current process")
_SIGNS_OF_NO_RIGHT: Final = ("Read-only file system", "Permission denied")
_DENIED: Final = (
    "Who reads a state writes as well: RocksDB's lock and log in its directory. Get the right to write there, or copy"
    " the data directory (while no service runs on it) to where you can write"
)
_SIGN_OF_A_GAP: Final = "No such file or directory"
_SIGN_OF_A_FILE: Final = "IO error"
_SIGN_OF_NO_ROOM: Final = "No space left on device"
_SIGN_OF_A_FULL_DISK: Final = f"{_SIGN_OF_A_FILE}: {_SIGN_OF_NO_ROOM}"


def get_checked(get: Get, key: bytes) -> bytes | None:
    """A point read that names damage. The hot column families do without: there `Machine` tells it by the text."""
    try:
        return get(key)
    except Exception as error:
        if is_damage(error):
            raise damaged(error) from error
        raise


def damaged(error: Exception) -> CorruptionError:
    """What to raise where a store met damage: what it is, and what to do, which is not said twice."""
    text = str(error)
    return CorruptionError(text if MEND in text else f"the state is damaged ({text}); {MEND}")


def close_failure(close: Callable[[], None]) -> str:
    """Close a handle; in which case it could not be, what RocksDB says."""
    try:
        close()
    except Exception as error:  # noqa: BLE001 - rocksdict raises nothing else
        return str(error) or "unknown"
    return ""


def open_error(path: str, error: Exception) -> Exception:
    """What to raise when the database in `path` could not be opened."""
    text = str(error).replace(path, "…")  # so that no word of the path is taken for RocksDB's
    if "LOCK" in text and any(sign in text for sign in _SIGNS_OF_A_HOLDER):
        return BlockingIOError(
            f"{path} is open in another process; stop it first, or read beside it with `slotlog query`"
        )
    if _SIGN_OF_NO_ROOM in text:  # rocksdict, which writes a file of its own, says it without RocksDB's words before it
        return StoreFullError(f"{path} cannot be opened, as its disk is full: make room ({text})")
    # The directory is there, and so is CURRENT: a file is missing that these name, such as the manifest.
    if any(sign in text.lower() for sign in _SIGNS_OF_DAMAGE) or _SIGN_OF_A_GAP in text:
        return CorruptionError(f"{path} is damaged ({text}); {MEND}")
    denied = f". {_DENIED}" if any(sign in text for sign in _SIGNS_OF_NO_RIGHT) else ""
    return OSError(f"{path} cannot be opened: {text}{denied}")


def is_full(error: Exception) -> bool:
    """Whether a failed write says that the disk has no room: this one met that, or a flush before it."""
    return str(error).startswith(_SIGN_OF_A_FULL_DISK)


def is_store_failure(error: Exception) -> bool:
    """Whether an exception out of a read is the store's: damage, or a file or index that cannot be read now."""
    if is_damage(error) or isinstance(error, IndexUnavailableError):
        return True
    return type(error) is Exception and str(error).startswith(_SIGN_OF_A_FILE)


def read_failure(error: Exception) -> str:
    """Why a partition cannot go on whose store raised `error` at a read."""
    if isinstance(error, IndexUnavailableError):
        return str(error)
    return str(damaged(error)) if is_damage(error) else f"the state cannot be read: {error}"
