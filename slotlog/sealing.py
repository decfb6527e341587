"""Seals values under a key for each subject, so that they can be erased from a log that keeps everything.

A sealed value is bytes, and may stand wherever a command takes a value. Destroying the subject's key erases all of its
values at once: in the log, in states, snapshots and copies of them, which stay as they are.

    sealed     = magic of 4 bytes, F5 "sl" 01: F5 begins no UTF-8, 01 is the version
                 [key id:16] [nonce:12] [ciphertext, as long as the value] [tag:16]

The cipher is AES-256-GCM. Magic, key id and context are its associated data: whoever opens the value must give the
context that it was sealed with. Key ids and nonces are random.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from slotlog.errors import ErasedError

MAGIC: Final = b"\xf5sl\x01"
_ID_BYTES: Final = 16
_NONCE_BYTES: Final = 12
_TAG_BYTES: Final = 16
_KEY_BYTES: Final = 32
_HEAD_BYTES: Final = len(MAGIC) + _ID_BYTES
SEALED_BYTES: Final = _HEAD_BYTES + _NONCE_BYTES + _TAG_BYTES
"""By which a sealed value is longer than the value."""

_TABLE: Final = """
CREATE TABLE IF NOT EXISTS keys (id BLOB PRIMARY KEY, subject TEXT NOT NULL UNIQUE, key BLOB NOT NULL) WITHOUT ROWID
"""


class Key(NamedTuple):
    """The key of a subject: its random id, which sealed values carry, and 32 secret bytes."""

    id: bytes
    secret: bytes


class KeyStore(Protocol):
    """A store of keys. Its owner can read every value that is not erased."""

    def of_subject(self, subject: str) -> Key:
        """The key of a subject; a new one, durable on return, where there is none."""
        ...

    def of_id(self, key_id: bytes) -> bytes | None:
        """The secret of a key; None: it was destroyed, or never was in this store."""
        ...

    def erase(self, subject: str) -> bool:
        """Destroy the key of a subject, for ever. Returns whether there was one."""
        ...


class KeyFile:
    """A key store in a SQLite file, which several processes may use.

    Args:
        path: of the file; made, readable by its owner alone, where it is not there and `create` is set.
        create: whether it may be made.

    Raises:
        OSError, sqlite3.Error: it cannot be read or written.
    """

    def __init__(self, path: str | Path, *, create: bool = True) -> None:
        flags = os.O_RDWR | (os.O_CREAT if create else 0)
        os.close(os.open(path, flags, 0o600))
        self._path = str(path)
        with closing(self._connected()) as connection:
            connection.execute(_TABLE if create else "SELECT id, subject, key FROM keys LIMIT 0")

    def of_subject(self, subject: str) -> Key:
        """One transaction: two processes get the same key."""
        with closing(self._connected()) as connection:
            row = connection.execute("SELECT id, key FROM keys WHERE subject = ?", (subject,)).fetchone()
            if row is None:
                fresh = (os.urandom(_ID_BYTES), subject, os.urandom(_KEY_BYTES))
                connection.execute("INSERT OR IGNORE INTO keys VALUES (?, ?, ?)", fresh)
                row = connection.execute("SELECT id, key FROM keys WHERE subject = ?", (subject,)).fetchone()
            return Key(*row)

    def of_id(self, key_id: bytes) -> bytes | None:
        """Read anew each time: another process may have destroyed it."""
        with closing(self._connected()) as connection:
            row = connection.execute("SELECT key FROM keys WHERE id = ?", (key_id,)).fetchone()
            return None if row is None else bytes(row[0])

    def erase(self, subject: str) -> bool:
        """SQLite overwrites the bytes with zeros."""
        with closing(self._connected()) as connection:
            return connection.execute("DELETE FROM keys WHERE subject = ?", (subject,)).rowcount > 0

    def _connected(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, timeout=30, isolation_level=None)
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute("PRAGMA synchronous = FULL")
        return connection


class Personal(NamedTuple):
    """An argument of an event that a producer seals.

    Attributes:
        subject: whose value it is.
        value: str is its UTF-8.
        context: what binds the value to its place, such as the name of its field; whoever opens it gives the same.
    """

    subject: str
    value: bytes | str
    context: bytes = b""


class Sealer:
    """Seals values, and opens them.

    Args:
        keys: where the keys are.

    Raises:
        ImportError: the package `cryptography` is not installed: `pip install 'slotlog[sealing]'`.

    Example:
        >>> keys = KeyFile("keys.sqlite3")
        >>> sealer = Sealer(keys)
        >>> sealed = sealer.seal("user:42", b"Ann")
        >>> sealer.open(sealed)
        b'Ann'
        >>> keys.erase("user:42")
        True
        >>> sealer.open(sealed)
        Traceback (most recent call last):
        slotlog.errors.ErasedError: the key of this value was destroyed, or is in another key store
    """

    def __init__(self, keys: KeyStore) -> None:
        try:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise ImportError("sealing needs the package cryptography: pip install 'slotlog[sealing]'") from error
        self._cipher = AESGCM
        self._keys = keys

    def seal(self, subject: str, value: bytes | str, context: bytes = b"") -> bytes:
        """The value, sealed under the subject's key; another result each time."""
        key = self._keys.of_subject(subject)
        head, nonce = MAGIC + key.id, os.urandom(_NONCE_BYTES)
        plain = value.encode() if isinstance(value, str) else value
        return head + nonce + self._cipher(key.secret).encrypt(nonce, plain, head + context)

    def open(self, sealed: bytes, context: bytes = b"") -> bytes:
        """The value.

        Raises:
            ErasedError: its key is not there any more.
            ValueError: it is no sealed value, was changed, or was sealed with another context.
        """
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - an extra

        if not is_sealed(sealed):
            raise ValueError("this is no sealed value")
        head, nonce = sealed[:_HEAD_BYTES], sealed[_HEAD_BYTES : _HEAD_BYTES + _NONCE_BYTES]
        secret = self._keys.of_id(head[len(MAGIC) :])
        if secret is None:
            raise ErasedError("the key of this value was destroyed, or is in another key store")
        try:
            return self._cipher(secret).decrypt(nonce, sealed[_HEAD_BYTES + _NONCE_BYTES :], head + context)
        except InvalidTag:
            raise ValueError("this sealed value was changed, or was sealed with another context") from None


def is_sealed(value: bytes) -> bool:
    """Whether bytes have the form of a sealed value."""
    return value.startswith(MAGIC) and len(value) >= SEALED_BYTES


def sealed_in(args: Sequence[Any], sealer: Sealer | None) -> list[Any]:
    """The arguments of an event, with each `Personal` one sealed, also in the commands of a transaction.

    Raises:
        TypeError: one is to be sealed, and there is no sealer.
    """
    return [_sealed(arg, sealer) for arg in args]


def _sealed(arg: Any, sealer: Sealer | None) -> Any:
    if isinstance(arg, Personal):
        if sealer is None:
            raise TypeError("a Personal argument needs a producer with a sealer: Producer(log, sealer=Sealer(keys))")
        return sealer.seal(*arg)
    return sealed_in(arg, sealer) if isinstance(arg, list | tuple) else arg
