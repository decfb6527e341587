"""The layouts of the tests with earlier records of strings, as in a state that an older program has written.

The value is the time at which the string dies, and its content. The keys of the records:

    neokv    CF data      [metadata key] S                among the subkeys
    hashed   CF records   e [metadata key without its m]  in a range of their own
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import ClassVar, Final

from engine.errors import CorruptionError
from engine.layouts.layout import Earlier, Kind, Layout
from engine.layouts.neokv import NeoKV
from engine.model import STRING, Metadata
from engine.store.store import Changes, Store
from engine.values.encoding import pack_u64, parse_u64
from tests.engine.stored import described
from tests.layouts import layout_name
from tests.layouts.hashed import Hashed

_HEADER: Final = Struct(">QQHI")
_TAG, _BEHIND_TAG = b"S", b"T"
_DISTANCE: Final = ord("m") - ord("e")


class EarlierForm:
    """The form of the value, which is the same in both."""

    def parse(self, value: bytes) -> Metadata:
        """A string and when it dies."""
        if len(value) < 8:
            raise CorruptionError(f"an earlier record of {len(value)} bytes")
        return Metadata(STRING, parse_u64(value[:8]), value=value[8:])


class AmongData(EarlierForm):
    """The records of `neokv`: a tag behind the metadata key, where other records of the key have a version."""

    def key(self, metadata_key: bytes) -> bytes:
        """`[metadata key] S`."""
        return metadata_key + _TAG

    def owner(self, record: bytes) -> bytes | None:
        """All but the tag, when the name has the length that stands in front of it."""
        return record[:-1] if record[-1:] == _TAG and len(record) == _name_end(record) + 1 else None

    def place(self, bound: bytes) -> bytes:
        """The same bytes; behind the tag of a key with which they begin."""
        end = _name_end(bound)
        return bound[:end] + _BEHIND_TAG if len(bound) > end else bound


class Apart(EarlierForm):
    """The records of `hashed`: a letter of their own."""

    def key(self, metadata_key: bytes) -> bytes:
        """`e` in the place of `m`."""
        return self.place(metadata_key)

    def owner(self, record: bytes) -> bytes | None:
        """`m` in the place of `e`."""
        return b"m" + record[1:] if record[:1] == b"e" else None

    def place(self, bound: bytes) -> bytes:
        """The first byte as far before `e` or behind it as it was from `m`."""
        return bytes((bound[0] - _DISTANCE,)) + bound[1:]


def _name_end(record: bytes) -> int:
    """Where the name ends with which a record begins; behind the record when it has no length."""
    return _HEADER.size + _HEADER.unpack_from(record)[3] if len(record) >= _HEADER.size else len(record)


class EarlierNeoKV(NeoKV):
    """`neokv` with earlier records."""

    families: ClassVar[Mapping[Kind, str]] = {**NeoKV.families, Kind.EARLIER: "data"}
    earlier: ClassVar[Earlier | None] = AmongData()


class EarlierHashed(Hashed):
    """`hashed` with earlier records."""

    families: ClassVar[Mapping[Kind, str]] = {**Hashed.families, Kind.EARLIER: "records"}
    earlier: ClassVar[Earlier | None] = Apart()

    def kind_prefix(self, kind: Kind, db: int | None = None) -> bytes:
        """Of earlier records, that of metadata with their own letter."""
        if kind == Kind.EARLIER:
            return Apart().place(super().kind_prefix(Kind.METADATA, db))
        return super().kind_prefix(kind, db)


_LAYOUTS: Final[dict[str, type[Layout]]] = {"neokv": EarlierNeoKV, "hashed": EarlierHashed}
_FORMS: Final[dict[str, Earlier]] = {"neokv": AmongData(), "hashed": Apart()}

LAYOUT: Final = _LAYOUTS[layout_name()]
"""The one with the name of the session's."""

FORM: Final = _FORMS[layout_name()]
"""Its form of earlier records."""


def put_earlier(store: Store, metadata_key: bytes, value: bytes | None) -> None:
    """Write one earlier record as it is, or delete it."""
    changes = Changes()
    changes.of(LAYOUT.families[Kind.EARLIER])[FORM.key(metadata_key)] = value
    store.write(changes)


def make_earlier(store: Store) -> None:
    """Turn the metadata record of each string into an earlier one. Its count and its entry in the index stay."""
    changes = Changes()
    for key, metadata in described(store).items():
        if metadata.type == STRING and not metadata.version:
            changes.of(LAYOUT.families[Kind.METADATA])[key] = None
            changes.of(LAYOUT.families[Kind.EARLIER])[FORM.key(key)] = pack_u64(metadata.expire_ms) + metadata.value
    store.write(changes)
