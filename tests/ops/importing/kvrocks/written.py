"""A second writer of Kvrocks' directories, straight from the description of its format: it shares no code with ours.

    metadata   [ns_len:1][ns][slot:2]?[key]
    subkey     [ns_len:1][ns][slot:2]?[key_len:4][key][version:8][subkey]

Wide metadata is [0x80 | type][expire in ms:8][version:8][size:8]; narrow is [type][expire in s:4][version:8][size:4].
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import rocksdict as rd  # noqa: TID251 - a second implementation uses the library itself

NAMESPACE: Final = b"__namespace"
FAMILIES: Final = ("metadata", "zset_score", "pubsub", "propagate", "stream", "search")
VERSION: Final = 0x305120C0F2000005
MIDDLE: Final = 2**63 - 1


def crc16(data: bytes) -> int:
    """CRC-16/XMODEM, bit by bit."""
    crc = 0
    for byte in data:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ 0x1021 if crc & 0x8000 else crc << 1) & 0xFFFF
    return crc


def slot_of(name: bytes) -> int:
    """The slot of a key: that of its tag when it has one."""
    head, opened, rest = name.partition(b"{")
    tag, closed, _ = rest.partition(b"}")
    del head
    return crc16(tag if opened and closed and tag else name) % 16384


def ordered(score: float) -> bytes:
    """A double whose bytes sort as its value does; -0.0 keeps its sign."""
    raw = struct.pack(">d", score)
    return bytes(255 - byte for byte in raw) if raw[0] & 0x80 else bytes([raw[0] | 0x80]) + raw[1:]


class KvrocksWriter:
    """Writes a directory. Used in a `with` block.

    Args:
        path: `dir` of the Kvrocks that it stands for; the database is in `db` below.
        cluster: whether keys name their slots.
        families: the column families beside `default`.
        options: of every column family.
    """

    def __init__(
        self,
        path: Path,
        *,
        cluster: bool = False,
        families: Sequence[str] = FAMILIES,
        options: rd.Options | None = None,
    ) -> None:
        path.mkdir(parents=True, exist_ok=True)
        self.database = path / "db"
        self._cluster = cluster
        own = options or rd.Options(raw_mode=True)
        own.create_if_missing(True)
        self._db = rd.Rdict(str(self.database), own)
        self._families = {name: self._db.create_column_family(name, own) for name in families}
        self._families["default"] = self._db.get_column_family("default")
        self.version = VERSION

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for family in self._families.values():
            family.close()
        self._families = {}
        self._db.close()
        (self.database / "rocksdict-config.json").unlink()

    def raw(self, family: str, key: bytes, value: bytes) -> None:
        """A record as it is."""
        self._families[family][key] = value

    def flush(self) -> None:
        """Everything into tables."""
        for family in self._families.values():
            family.flush()

    def checkpoint(self, path: Path) -> None:
        """What BGSAVE makes: the database as it is now, in a directory of its own."""
        rd.Checkpoint(self._db).create_checkpoint(str(path))

    # ------------------------------------------------------------------ types

    def string(self, name: bytes, value: bytes, *, expire_ms: int = 0, namespace: bytes = NAMESPACE) -> None:
        """Type 1."""
        self._metadata(namespace, name, struct.pack(">BQ", 0x81, expire_ms) + value)

    def narrow_string(self, name: bytes, value: bytes, expire_s: int = 0) -> None:
        """Type 1 as before 2.9."""
        self._metadata(NAMESPACE, name, struct.pack(">BI", 0x01, expire_s) + value)

    def json(self, name: bytes, document: bytes) -> None:
        """Type 10."""
        self._metadata(NAMESPACE, name, struct.pack(">BQB", 0x8A, 0, 0) + document)

    def collection(
        self,
        code: int,
        name: bytes,
        subkeys: Mapping[bytes, bytes],
        *,
        size: int | None = None,
        tail: bytes = b"",
        expire_ms: int = 0,
        narrow: bool = False,
        namespace: bytes = NAMESPACE,
        family: str = "default",
    ) -> None:
        """Any type with subkeys; narrow: as before 2.9, with `expire_ms` rounded to seconds as the format says."""
        self.version += 2048
        size = len(subkeys) if size is None else size
        if narrow:
            seconds = 0 if not expire_ms else 1 if expire_ms < 1000 else (expire_ms + 499) // 1000
            head = struct.pack(">BIQI", code, seconds, self.version, size)
        else:
            head = struct.pack(">BQQQ", 0x80 | code, expire_ms, self.version, size)
        self._metadata(namespace, name, head + tail)
        for subkey, value in subkeys.items():
            self.raw(family, self._prefix(namespace, name) + subkey, value)

    def hash(self, name: bytes, fields: Mapping[bytes, bytes], **more: object) -> None:
        """Type 2, without times."""
        self.collection(2, name, fields, **more)  # type: ignore[arg-type]

    def timed_hash(self, name: bytes, fields: Mapping[bytes, tuple[int, bytes]]) -> None:
        """Type 2 in the form of `hash-encoding-mode field-expiration`."""
        times = [expire_ms for expire_ms, _ in fields.values() if expire_ms]
        tail = struct.pack(">BQQQ", 1, len(fields) - len(times), min(times, default=0), max(times, default=0))
        stored = {field: struct.pack(">Q", expire_ms) + value for field, (expire_ms, value) in fields.items()}
        self.collection(2, name, stored, tail=tail)

    def list(self, name: bytes, elements: Sequence[bytes], *, head: int = MIDDLE, narrow: bool = False) -> None:
        """Type 3, whose first element stands at `head`."""
        subkeys = {struct.pack(">Q", head + at): element for at, element in enumerate(elements)}
        tail = struct.pack(">QQ", head, head + len(elements))
        self.collection(3, name, subkeys, tail=tail, narrow=narrow)

    def set(self, name: bytes, members: Sequence[bytes], *, narrow: bool = False) -> None:
        """Type 4."""
        self.collection(4, name, dict.fromkeys(members, b""), narrow=narrow)

    def zset(self, name: bytes, scores: Mapping[bytes, float], *, narrow: bool = False) -> None:
        """Type 5, with its rows by score."""
        self.collection(5, name, {member: ordered(score) for member, score in scores.items()}, narrow=narrow)
        for member, score in scores.items():
            self.raw("zset_score", self._prefix(NAMESPACE, name) + ordered(score) + member, b"")

    def bitmap(self, name: bytes, bits: Sequence[int]) -> None:
        """Type 6: fragments of up to 1,024 bytes, each as long as its last bit needs; bit n from the right."""
        fragments: dict[int, bytearray] = {}
        for bit in bits:
            start = bit // 8192 * 1024
            fragment = fragments.setdefault(start, bytearray())
            at = bit // 8 - start
            fragment.extend(bytes(max(0, at + 1 - len(fragment))))
            fragment[at] |= 1 << bit % 8
        subkeys = {str(start).encode(): bytes(fragment) for start, fragment in fragments.items()}
        self.collection(6, name, subkeys, size=max(bits) // 8 + 1)

    def hyperloglog(self, name: bytes, registers: Mapping[int, int]) -> None:
        """Type 11: 6 bits a register, from the lowest bit of each byte on, in 16 fragments of 768 bytes."""
        packed = sum(count << 6 * register for register, count in registers.items()).to_bytes(12288, "little")
        parts = {str(at).encode(): packed[768 * at : 768 * (at + 1)] for at in range(16)}
        self.collection(11, name, {at: part for at, part in parts.items() if any(part)}, size=0, tail=b"\0")

    def stream(self, name: bytes) -> None:
        """Type 8, with one entry: 1000-0, f v."""
        entry = struct.pack(">QQ", 1000, 0)
        tail = entry + entry + bytes(16) + entry + entry + struct.pack(">QQ", 1, 0)
        self.collection(8, name, {entry: b"\x01f\x01v"}, tail=tail, family="stream")

    # ------------------------------------------------------------------ keys

    def _metadata(self, namespace: bytes, name: bytes, value: bytes) -> None:
        self.raw("metadata", self._head(namespace, name) + name, value)

    def _prefix(self, namespace: bytes, name: bytes) -> bytes:
        return self._head(namespace, name) + struct.pack(">I", len(name)) + name + struct.pack(">Q", self.version)

    def _head(self, namespace: bytes, name: bytes) -> bytes:
        slot = struct.pack(">H", slot_of(name)) if self._cluster else b""
        return bytes([len(namespace)]) + namespace + slot


def few_keys(path: Path, expire_ms: int) -> Path:
    """Write a directory with a key of several types; that of `s` dies then."""
    with KvrocksWriter(path) as writer:
        writer.string(b"s", b"v", expire_ms=expire_ms)
        writer.zset(b"z", {b"m": 1.5})
        writer.hash(b"h", {b"f": b"v"})
        writer.string(b"k", b"three", namespace=b"db3")
        writer.hyperloglog(b"u", {12_711: 2})
    return path
