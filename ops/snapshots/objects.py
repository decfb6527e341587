"""Objects by key, in a directory or an S3-compatible store.

Credentials and the address of an S3 store come from the environment alone, by the names that AWS' own tools use:
AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION, AWS_ENDPOINT_URL, AWS_ALLOW_HTTP.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from errno import EACCES, EPERM, EROFS
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol
from urllib.parse import unquote, urlsplit

from ops.config import ConfigError
from ops.snapshots.errors import SnapshotStoreError
from slotlog.disk import make_directory, sync

if TYPE_CHECKING:
    from obstore.store import LocalStore, S3Store

_CHUNK_BYTES: Final = 1024 * 1024
_TEXT_MAX: Final = 300
_NO_RIGHT: Final = tuple(f"(os error {number})" for number in (EACCES, EPERM, EROFS))
_DENIED: Final = (
    "What takes, verifies, collects or deletes snapshots writes to the store; `list` and `restore` only read. Get the"
    " right to write, or copy the store to where you can write"
)


class Stored(NamedTuple):
    """One object: its key, its size in bytes, and when it was written, by the store's clock."""

    key: str
    size: int
    modified_ms: int


class Objects(Protocol):
    """Whole objects by key. An object is there with all of its bytes or not at all.

    Raises:
        SnapshotStoreError: the store cannot be used, in each method.
    """

    @property
    def label(self) -> str:
        """The address, without credentials."""
        ...

    def put(self, key: str, data: bytes) -> None:
        """Write an object, over one of that key. When it returns, the object survives a power loss."""
        ...

    def put_file(self, key: str, path: Path) -> None:
        """Write an object with the contents of a file; likewise."""
        ...

    def get(self, key: str) -> bytes | None:
        """The bytes of an object; None where there is none."""
        ...

    def chunks(self, key: str) -> Iterator[bytes] | None:
        """The bytes of an object, about a MiB at a time; None where there is none."""
        ...

    def listed(self, prefix: str) -> Iterator[Stored]:
        """All objects whose keys begin with `prefix` and a slash."""
        ...

    def delete(self, key: str) -> None:
        """Delete an object; one that is not there is no error."""
        ...


def open_objects(url: str, *, create: bool = True) -> Objects:
    """The store at an address: `s3://BUCKET/PREFIX`, a directory, or `file:///DIRECTORY`.

    Args:
        url: the address.
        create: whether to make a directory that is not there: for who writes snapshots.

    Raises:
        ConfigError: it is none of these.
        SnapshotStoreError: the directory cannot be made, or is not there.
    """
    from obstore.store import LocalStore, S3Store  # noqa: PLC0415 - only who has snapshots waits for it

    parts = urlsplit(url)
    if parts.scheme == "s3":
        if not parts.hostname or "@" in parts.netloc or parts.query:
            raise ConfigError(
                f"{parts.scheme}://{parts.hostname or ''} is no address of snapshots: it is s3://BUCKET/PREFIX, and"
                " credentials come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            )
        prefix = parts.path.strip("/")
        label = f"s3://{parts.hostname}/{prefix}".rstrip("/")
        with _named(label):
            return StoredObjects(S3Store(parts.hostname, prefix=prefix or None), label)
    if parts.scheme not in {"", "file"} or (parts.scheme == "file" and parts.netloc):
        raise ConfigError(f"{url!r} is no address of snapshots: it is s3://BUCKET/PREFIX or a directory")
    directory = _directory_at(url)
    label = str(directory)
    if not create and missing_directory(url):
        raise SnapshotStoreError(f"there is no directory {label}: where are the snapshots?")
    try:
        make_directory(directory)
    except OSError as error:
        raise SnapshotStoreError(f"{label} cannot be used for snapshots: {error.strerror}") from error
    with _named(label):
        return StoredObjects(LocalStore(directory.absolute()), label, directory)


def missing_directory(url: str) -> Path | None:
    """The directory of a store, if it is not there; None of S3, of no address and of a wrong one, too."""
    parts = urlsplit(url)
    if not url or parts.scheme not in {"", "file"} or (parts.scheme and parts.netloc):
        return None
    directory = _directory_at(url)
    return None if directory.exists() else directory


def _directory_at(url: str) -> Path:
    parts = urlsplit(url)
    return Path(unquote(parts.path) if parts.scheme else url)


class StoredObjects:
    """Objects in a store of obstore.

    Args:
        store: where they are.
        label: its address, without credentials.
        directory: of a store in files, whose writes are brought to disk.
    """

    def __init__(self, store: LocalStore | S3Store, label: str, directory: Path | None = None) -> None:
        self._store = store
        self._label = label
        self._directory = directory

    @property
    def label(self) -> str:
        """The address, without credentials."""
        return self._label

    def put(self, key: str, data: bytes) -> None:
        """Write an object."""
        with _named(self._label, _DENIED):
            self._store.put(key, data)
            self._sync(key)

    def put_file(self, key: str, path: Path) -> None:
        """Write an object with the contents of a file."""
        with _named(self._label, _DENIED):
            self._store.put(key, path)
            self._sync(key)

    def get(self, key: str) -> bytes | None:
        """The bytes of an object."""
        chunks = self.chunks(key)
        return None if chunks is None else b"".join(chunks)

    def chunks(self, key: str) -> Iterator[bytes] | None:
        """The bytes of an object, in pieces."""
        try:
            with _named(self._label):
                if self._directory is not None:  # obstore reads files 8 KiB at a time, at 40 times the CPU time
                    file = (self._directory / key).open("rb", buffering=0)
                    return self._pieces(_read(file))
                result = self._store.get(key)
        except FileNotFoundError:
            return None
        return self._pieces(iter(result.stream(min_chunk_size=_CHUNK_BYTES)))

    def listed(self, prefix: str) -> Iterator[Stored]:
        """All objects below `prefix`."""
        with _named(self._label):
            for page in self._store.list(prefix):
                for each in page:
                    yield Stored(each["path"], each["size"], round(each["last_modified"].timestamp() * 1000))

    def delete(self, key: str) -> None:
        """Delete an object."""
        try:
            with _named(self._label, _DENIED):
                self._store.delete(key)
        except FileNotFoundError:
            return

    def _pieces(self, stream: Iterator[object]) -> Iterator[bytes]:
        while True:
            with _named(self._label):
                piece = next(stream, None)
            if piece is None:
                return
            yield bytes(piece)  # type: ignore[call-overload] # a buffer

    def _sync(self, key: str) -> None:
        """Bring a file, its name and those of its directories to disk: a power loss must not take what is published."""
        if self._directory is None:
            return
        path = self._directory / key
        for each in (path, *path.parents):
            sync(each)
            if each == self._directory:
                break


def _read(file: FileIO) -> Iterator[bytes]:
    """The bytes of an open file, in pieces; then it is closed."""
    with file:
        while piece := file.read(_CHUNK_BYTES):
            yield piece


@contextmanager
def _named(label: str, denied: str = "") -> Iterator[None]:
    """Turn an error of the store into one of ours, which names it and is one line. FileNotFoundError goes through.

    `denied` is what to say besides where a directory may not be written.
    """
    from obstore.exceptions import BaseError  # noqa: PLC0415 - as above

    try:
        yield
    except FileNotFoundError:
        raise
    except (BaseError, OSError) as error:
        text = " ".join(str(error).partition("Debug source")[0].split())
        if denied and text.endswith(_NO_RIGHT):
            text = f"it cannot be written: {text.rpartition(': ')[2]}. {denied}"
        raise SnapshotStoreError(f"{label}: {text[:_TEXT_MAX]}") from None
