"""A small writer of Phase 1, from the document alone: it shares but the slot with slotlog."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import rocksdict as rd  # noqa: TID251 - as another program uses it

from slotlog.shared.slots import slot


def record(
    name: bytes, value: bytes, *, region: int = 0, db: int = 0, expire_ms: int = 0, tag: bytes = b"S"
) -> tuple[bytes, bytes]:
    """The record of a string: `[region:8][db:8][slot:2][length:4][name][tag:1]` and `[expire_ms:8][value]`."""
    numbers = ((region, 8), (db, 8), (slot(name), 2), (len(name), 4))
    prefix = b"".join(number.to_bytes(size, "big") for number, size in numbers)
    return prefix + name + tag, expire_ms.to_bytes(8, "big") + value


def write_directory(path: Path, records: Mapping[str, Mapping[bytes, bytes]]) -> Path:
    """A database with these column families beside `default`, some of it in tables and some in the write-ahead log."""
    path.mkdir(parents=True, exist_ok=True)
    options = rd.Options(raw_mode=True)
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    families = {name: rd.Options(raw_mode=True) for name in ("default", *records)}
    database = rd.Rdict(str(path), options, column_families=families)
    for name, of_family in records.items():
        family = database.get_column_family(name)
        for number, (key, value) in enumerate(of_family.items()):
            family[key] = value
            if number == len(of_family) // 2:
                family.flush()
        family.close()
    database.close()
    return path
