"""Keys of the `camellia` layouts (seed 002). Every integer is big-endian.

    place         = [ns][md5(key)[0:8]]
    metadata      m# place [key]
    subkey        s# place [key_len:4][key][key_version:8][subkey]
    score key     k# place [key_len:4][key][key_version:8][score:8][member]
    count         n# place [key_len:4][key][key_version:8]
    long member   i# place [key_len:4][key][key_version:8][item]
    sorted set    c# [ns][key][key_version:8], the name in an index outside of the store

An item is 00 [member], or 01 [md5(member):16] of a member of 15 bytes or more.

The namespace `ns` has no length. So that no key of one database can be taken for that of another, all namespaces have
the same length: that of `default`, which is database 0; database n is `ns` and n in five digits.
"""

from __future__ import annotations

from hashlib import md5
from typing import Final

from engine.errors import CorruptionError
from engine.values.encoding import U32, U64, pack_u64, parse_u64

METADATA: Final = b"m#"
SUBKEY: Final = b"s#"
SCORE: Final = b"k#"
COUNT: Final = b"n#"
NAME: Final = b"i#"
INDEX: Final = b"c#"

SHORT: Final = b"\0"
LONG: Final = b"\1"
MEMBER_BYTES: Final = 15
"""A member of so many bytes or more stands in the index with its MD5."""

TAG_BYTES: Final = 2
NAMESPACE_BYTES: Final = 7
DIGEST_BYTES: Final = 8

_DEFAULT: Final = b"default"
_DIGEST_AT: Final = TAG_BYTES + NAMESPACE_BYTES
_KEY_AT: Final = _DIGEST_AT + DIGEST_BYTES
_PLACE: Final = slice(TAG_BYTES, _KEY_AT)


def namespace_of(db: int) -> bytes:
    """The namespace of a database."""
    return b"ns%05d" % db if db else _DEFAULT


def database_of(namespace: bytes) -> int | None:
    """The database of a namespace; None when it is that of none."""
    if namespace == _DEFAULT:
        return 0
    digits = namespace.removeprefix(b"ns")
    return int(digits) if digits.isdigit() and namespace_of(int(digits)) == namespace else None


def digest(name: bytes) -> bytes:
    """`md5(key)[0:8]`: what spreads keys."""
    return md5(name, usedforsecurity=False).digest()[:DIGEST_BYTES]


def metadata_key(namespace: bytes, name: bytes) -> bytes:
    """`m# [ns][md5(key)[0:8]][key]`."""
    return METADATA + namespace + digest(name) + name


def parse_metadata_key(key: bytes) -> tuple[int, bytes]:
    """The (db, name) of a metadata key.

    Raises:
        CorruptionError: it is none.
    """
    db, name = database_of(key[TAG_BYTES:_DIGEST_AT]), key[_KEY_AT:]
    if db is None or key[:TAG_BYTES] != METADATA or key[_DIGEST_AT:_KEY_AT] != digest(name):
        message = f"metadata key {key.hex()} is none of a camellia layout"
        raise CorruptionError(message)
    return db, name


def subkey_prefix(tag: bytes, namespace: bytes, name: bytes, version: int) -> bytes:
    """`[tag][ns][md5(key)[0:8]][key_len:4][key][key_version:8]`."""
    return tag + namespace + digest(name) + U32.pack(len(name)) + name + pack_u64(version)


def prefix_of(tag: bytes, metadata_key: bytes, version: int | None) -> bytes:
    """The same of the key with this metadata key; of all its versions with None. Hot path: no digest is made again."""
    name = metadata_key[_KEY_AT:]
    prefix = tag + metadata_key[_PLACE] + U32.pack(len(name)) + name
    return prefix if version is None else prefix + pack_u64(version)


def index_name(metadata_key: bytes, version: int) -> bytes:
    """`c# [ns][key][key_version]`."""
    return INDEX + metadata_key[TAG_BYTES:_DIGEST_AT] + metadata_key[_KEY_AT:] + pack_u64(version)


def index_owner(name: bytes) -> tuple[int, bytes, int] | None:
    """The (db, key, version) of which `index_name` makes this name; None where it makes no such name."""
    start, end = _DIGEST_AT, len(name) - U64.size
    db = database_of(name[TAG_BYTES:start])
    if not name.startswith(INDEX) or db is None or end < start:
        return None
    return db, name[start:end], parse_u64(name[end:])


def index_item(member: bytes) -> bytes:
    """`00 [member]`, or `01 [md5(member)]` of one of 15 bytes or more."""
    if len(member) < MEMBER_BYTES:
        return SHORT + member
    return LONG + md5(member, usedforsecurity=False).digest()


def owner(record: bytes) -> tuple[bytes, int]:
    """The metadata key, and the version that stands in front of a subkey.

    Raises:
        CorruptionError: the record is too short.
    """
    start = _KEY_AT + U32.size
    end = start + U32.unpack_from(record, _KEY_AT)[0] if len(record) >= start else start
    if len(record) < end + U64.size:
        message = f"record {record.hex()} is too short to have a version"
        raise CorruptionError(message)
    return METADATA + record[_PLACE] + record[start:end], parse_u64(record[end : end + U64.size])


def hash_of(metadata_key: bytes) -> int:
    """What metadata keys of a namespace lie by: a number of 64 bits."""
    return parse_u64(metadata_key[_DIGEST_AT:_KEY_AT])
