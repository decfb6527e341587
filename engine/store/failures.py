"""What RocksDB's failures mean. rocksdict raises them all as one class, so their text tells."""

from __future__ import annotations

from typing import Final

from engine.errors import CorruptionError
from engine.store.base import Get, is_damage

_MEND: Final = "rebuild it with `slotlog replay`"
_SIGNS_OF_DAMAGE: Final = ("corruption", "checksum mismatch")


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
    return CorruptionError(text if _MEND in text else f"the state is damaged ({text}); {_MEND}")


def open_error(path: str, error: Exception) -> Exception:
    """What to raise when the database in `path` could not be opened."""
    text = str(error).replace(path, "…")  # so that no word of the path is taken for RocksDB's
    if "LOCK" in text:
        return BlockingIOError(
            f"{path} is open in another process; stop it first, or read beside it with `slotlog query`"
        )
    if any(sign in text.lower() for sign in _SIGNS_OF_DAMAGE):
        return CorruptionError(f"{path} is damaged ({text}); {_MEND}")
    return OSError(f"{path} cannot be opened: {text}")
