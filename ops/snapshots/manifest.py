"""The manifest of a snapshot: JSON that says which state it is, where it stands, and which files it has.

    version                                2; 1 has no `chain`
    slotlog                                the release that took it
    topic, partition, partitions, layout   which state it is
    format, rules                          of the state, as in its column family `system`
    next_offset, clock_ms                  where it stands
    fingerprint                            hexadecimal: the log's own mark of the last record applied; or null
    digest, keys                           of the logical state at `clock_ms`
    chain                                  the head of the log's hash chain at `next_offset`; or null: the log could not
                                           be read from where the chain goes on (slotlog/log/hash_chain.py)
    taken_ms                               wall time in milliseconds since 1970
    files                                  of the database: name, size in bytes, sha256, and the object in the store

A manifest is named by its own checksum, so that one that was changed is found out, and is never written twice.
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from engine.store.store import SYSTEM_CF
from engine.tables.system import FORMAT, RULES, Home
from ops.snapshots.errors import SnapshotRefusedError

MANIFEST_VERSION: Final = 2
FILES: Final = "files"
"""Where the objects of files are in a store: FILES/SHA256.RANDOM."""

_U64: Final = Field(ge=0, lt=1 << 64)
_Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}\z")]
_CURRENT: Final = "CURRENT"
_NAME_DIGITS: Final = 16


class SnapshotFile(BaseModel):
    """One file of a snapshot.

    Attributes:
        name: in the directory of the database.
        size: in bytes.
        sha256: of its contents.
        object: the key in the store.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    name: str = Field(pattern=r"^[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}\z")
    size: Annotated[int, _U64]
    sha256: _Sha256
    object: str = Field(pattern=rf"^{FILES}/[0-9a-f]{{64}}\.[0-9a-f]{{8}}\z")

    @model_validator(mode="after")
    def _named_by_contents(self) -> SnapshotFile:
        if not self.object.startswith(f"{FILES}/{self.sha256}."):
            raise ValueError(f"the object of {self.name} is that of other contents")
        return self


class Manifest(BaseModel):
    """A snapshot of one partition's state, as the head of this module says."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, ser_json_bytes="hex", val_json_bytes="hex")

    version: int = MANIFEST_VERSION
    slotlog: str
    topic: str
    partition: Annotated[int, _U64]
    partitions: Annotated[int, _U64]
    layout: str
    format: Annotated[int, _U64]
    rules: Annotated[int, _U64]
    next_offset: Annotated[int, _U64]
    clock_ms: Annotated[int, _U64]
    fingerprint: bytes | None
    digest: _Sha256
    keys: Annotated[int, _U64]
    chain: _Sha256 | None = None
    taken_ms: Annotated[int, _U64]
    files: tuple[SnapshotFile, ...]

    @model_validator(mode="after")
    def _whole(self) -> Manifest:
        names = {file.name for file in self.files}
        if len(names) < len(self.files):
            raise ValueError("it names a file twice")
        if _CURRENT not in names:
            raise ValueError(f"it names no file {_CURRENT}")
        return self

    @property
    def home(self) -> Home:
        """Which state it is."""
        return Home(self.topic, self.partition, self.partitions, self.layout)

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    def pack(self) -> bytes:
        """The bytes of the manifest in a store."""
        return self.model_dump_json(indent=1).encode() + b"\n"


def checksum(data: bytes) -> str:
    """The checksum of a manifest's bytes, hexadecimal."""
    return sha256(data).hexdigest()


def name_of(next_offset: int, data: bytes) -> str:
    """The name of a manifest in a store: `1200-` and the first digits of its checksum."""
    return f"{next_offset}-{checksum(data)[:_NAME_DIGITS]}"


def parse_manifest(data: bytes, name: str) -> Manifest:
    """The manifest that a store has under a name.

    Raises:
        SnapshotRefusedError: it is not what was written, or a newer slotlog wrote it.
    """
    try:
        raw: Any = json.loads(data)
    except ValueError as error:
        raise SnapshotRefusedError(f"its manifest is damaged: it is no JSON ({error})") from None
    version = raw.get("version") if isinstance(raw, dict) else None
    if isinstance(version, int) and version > MANIFEST_VERSION:
        raise SnapshotRefusedError(
            f"its manifest has version {version}, this slotlog knows {MANIFEST_VERSION}; use a newer release"
        )
    try:
        manifest = Manifest.model_validate_json(data)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise SnapshotRefusedError(f"its manifest is damaged: {place}: {first['msg']}") from None
    if name != name_of(manifest.next_offset, data):
        raise SnapshotRefusedError("its manifest is damaged: its checksum is not the one in its name")
    return manifest


def refusal(manifest: Manifest, home: Home) -> str:
    """Why the state `home` cannot be restored from a snapshot; empty where it can.

    Args:
        manifest: of the snapshot.
        home: the topic, partition and layout that are wanted.
    """
    wanted = (
        ("topic", manifest.topic, home.topic),
        ("partition", manifest.partition, home.partition),
        ("number of partitions", manifest.partitions, home.partitions),
        ("layout", manifest.layout, home.layout),
    )
    differing = [f"its {name} is {found}, not {asked}" for name, found, asked in wanted if found != asked]
    if differing:
        return "; ".join(differing)
    if manifest.format != FORMAT:
        return f"its {SYSTEM_CF} table has format {manifest.format}, this slotlog knows {FORMAT}"
    if manifest.rules > RULES:
        return f"it follows rules {manifest.rules}, this slotlog knows {RULES}; use a newer release"
    return ""
