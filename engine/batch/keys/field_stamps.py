"""The fields of a hash in a layout whose values say when their field dies (`Layout.stamps_fields`).

    [field]  ->  [expire_ms:8][value]     0: the field has no time to live

Only a hash in its timed form has such values, and then each of its fields. Commands see the bare values: the time is
taken off where one is read, and put in front where it is written. The times themselves are those of the records of the
kind TIMES, as in any layout.
"""

from __future__ import annotations

from engine.batch.keys.key import BY_FIELD, FieldTimes
from engine.batch.overlaid import Records, Scan, Subkeys
from engine.errors import CorruptionError
from engine.store.store import Get
from engine.values.encoding import U64, pack_u64


class StampedFields(Subkeys):
    """The fields of one version of a hash in its timed form: bare values here, stamped ones in the store."""

    __slots__ = ("_times",)

    def __init__(
        self, column_family: str, get: Get, scan: Scan, prefix: bytes, times: FieldTimes, *, fresh: bool
    ) -> None:
        def get_bare(record: bytes) -> bytes | None:
            stored = get(record)
            return None if stored is None else bare(stored)

        def scan_bare(start: bytes, end: bytes, *, reverse: bool) -> Records:
            return ((record, bare(stored)) for record, stored in scan(start, end, reverse=reverse))

        super().__init__(column_family, get_bare, scan_bare, prefix, fresh=fresh)
        self._times = times

    def add_to(self, records: dict[bytes, bytes | None]) -> None:
        """Add the fields to write: those that have changed, and those whose time has."""
        prefix, times, changed = self.prefix, self._times, self.changed
        retimed = (record[1:] for record in times.subkeys.changed if record[:1] == BY_FIELD)
        for field in dict.fromkeys((*changed, *retimed)):
            value = self.get(field)
            if value is not None:
                records[prefix + field] = pack_u64(times.of(field)) + value
            elif field in changed:
                records[prefix + field] = None


def bare(stored: bytes) -> bytes:
    """The value of a field without its time.

    Raises:
        CorruptionError: it is too short to have one.
    """
    if len(stored) < U64.size:
        message = f"a field of a hash with field times has {len(stored)} bytes: too few for a time"
        raise CorruptionError(message)
    return stored[U64.size :]
