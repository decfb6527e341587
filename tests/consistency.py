"""What every state must keep to, whatever was applied: sizes, indexes and counts fit the records."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator

from engine.encoding import pack_u64, parse_u64
from engine.graveyard import parse_grave
from engine.layouts.base import LIST, STRING, ZSET, Layout, Metadata
from engine.store.base import EXPIRY_CF, GRAVEYARD_CF, SYSTEM_CF, Store


def problems(store: Store, layout: Layout) -> list[str]:
    """What is wrong with the records of `store`, after a commit; empty when nothing is.

    size         a collection has as many subkeys as its metadata says; a list's stand at head … tail - 1
    scores       a sorted set's score records are its members with their scores
    expiry       one entry for each key with a time to live, and no other
    counts       keys by database and type, due ones included
    graveyard    every subkey belongs to a key's version or to a grave
    """
    keys = {key: layout.parse_metadata(value) for key, value in store.scan(layout.metadata_cf, b"", None)}
    found = [problem for key, metadata in keys.items() for problem in _of_key(store, layout, key, metadata)]
    expected = {pack_u64(metadata.expire_ms) + key for key, metadata in keys.items() if metadata.expire_ms}
    actual = {key for key, _ in store.scan(EXPIRY_CF, b"", None)}
    if expected != actual:
        found.append(f"expiry: missing {sorted(expected - actual)}, too many {sorted(actual - expected)}")
    return [*found, *_of_counts(store, layout, keys), *_orphans(store, layout, keys)]


def _of_key(store: Store, layout: Layout, key: bytes, metadata: Metadata) -> Iterator[str]:
    if metadata.type == STRING:
        return
    prefix = layout.subkey_prefix(key, metadata.version)
    subkeys = dict(_below(store, layout.data_cf, prefix))
    if len(subkeys) != metadata.size or not subkeys:
        yield f"size: {key!r} says {metadata.size}, has {len(subkeys)}"
    if metadata.type == LIST and list(map(parse_u64, subkeys)) != list(range(metadata.head, metadata.tail)):
        yield f"size: the elements of {key!r} are not at {metadata.head} … {metadata.tail - 1}"
    if metadata.type == ZSET:
        expected = sorted(score + member for member, score in subkeys.items())
        actual = [subkey for subkey, _ in _below(store, layout.score_cf, layout.score_prefix(key, metadata.version))]
        if expected != actual:
            yield f"scores: of {key!r}: {actual}, not {expected}"


def _of_counts(store: Store, layout: Layout, keys: dict[bytes, Metadata]) -> Iterator[str]:
    expected = Counter((layout.parse_metadata_key(key)[0], metadata.type) for key, metadata in keys.items())
    actual: Counter[tuple[int, int]] = Counter()
    for name, value in store.scan(SYSTEM_CF, b"count/", b"count0"):
        _, db, type_code = name.split(b"/")
        actual[int(db), int(type_code)] = parse_u64(value)
    if +expected != +actual:
        yield f"counts: {dict(+actual)}, not {dict(+expected)}"


def _orphans(store: Store, layout: Layout, keys: dict[bytes, Metadata]) -> Iterator[str]:
    owners = [(key, metadata.version) for key, metadata in keys.items() if metadata.type != STRING]
    graves = [parse_grave(key, value) for key, value in store.scan(GRAVEYARD_CF, b"", None)]
    owners += [(grave.metadata_key, grave.version) for grave in graves]
    for family, prefix_of in ((layout.data_cf, layout.subkey_prefix), (layout.score_cf, layout.score_prefix)):
        prefixes = sorted(prefix_of(key, version) for key, version in owners)
        for record, _ in store.scan(family, b"", None):
            at = bisect_right(prefixes, record)
            if not at or not record.startswith(prefixes[at - 1]):
                yield f"graveyard: {family} record {record!r} belongs to no key and no grave"


def _below(store: Store, family: str, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The records that start with `prefix`, without it."""
    for key, value in store.scan(family, prefix, None):
        if not key.startswith(prefix):
            return
        yield key[len(prefix) :], value
