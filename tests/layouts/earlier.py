"""The layouts of the tests with earlier records of strings, as in a state that an older program has written.

The records of `neokv` are those of Phase 1, which lie among the subkeys. Those of `hashed` have the same values, and a
range of their own:

    CF records   e [metadata key without its m]
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

from engine.layouts.layout import Earlier, Kind, Layout
from engine.layouts.neokv.layout import NeoKVOverPhase1
from engine.layouts.neokv.phase1 import Phase1
from engine.model import STRING
from engine.store.store import Changes, Store
from tests.engine.stored import described
from tests.layouts import layout_name
from tests.layouts.hashed import Hashed

_DISTANCE: Final = ord("m") - ord("e")


class Apart(Phase1):
    """The records of `hashed`: a letter of their own."""

    def key(self, metadata_key: bytes, /) -> bytes:
        """`e` in the place of `m`."""
        return self.place(metadata_key)

    def owner(self, record: bytes, /) -> bytes | None:
        """`m` in the place of `e`."""
        return b"m" + record[1:] if record[:1] == b"e" else None

    def place(self, bound: bytes, /) -> bytes:
        """The first byte as far before `e` or behind it as it was from `m`."""
        return bytes((bound[0] - _DISTANCE,)) + bound[1:]


class EarlierHashed(Hashed):
    """`hashed` with earlier records."""

    families: ClassVar[Mapping[Kind, str]] = {**Hashed.families, Kind.EARLIER: "records"}
    earlier: ClassVar[Earlier | None] = Apart()

    def kind_prefix(self, kind: Kind, db: int | None = None) -> bytes:
        """Of earlier records, that of metadata with their own letter."""
        if kind == Kind.EARLIER:
            return Apart().place(super().kind_prefix(Kind.METADATA, db))
        return super().kind_prefix(kind, db)


_LAYOUTS: Final[dict[str, type[Layout]]] = {"neokv": NeoKVOverPhase1, "hashed": EarlierHashed}
_FORMS: Final[dict[str, Earlier]] = {"neokv": Phase1(), "hashed": Apart()}

NAMES: Final = tuple(_LAYOUTS)
"""In sessions on which layouts there are such tests."""

LAYOUT: Final = _LAYOUTS.get(layout_name(), EarlierHashed)
"""The one with the name of the session's."""

FORM: Final = _FORMS.get(layout_name(), Apart())
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
            changes.of(LAYOUT.families[Kind.EARLIER])[FORM.key(key)] = FORM.pack(metadata)
    store.write(changes)
