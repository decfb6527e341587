"""Record keys as Kvrocks writes them. Every integer is big-endian.

    owner      [ns_len:1][ns]([slot:2])
    metadata   [owner][name]
    subkey     [owner][name_len:4][name][version:8][subkey]        in `default`; in `zset_score`: [score:8][member]

The slot is there exactly when Kvrocks runs in its cluster mode: no record says which. Example: the metadata key of foo
in the default namespace is 0b 5f5f6e616d657370616365 666f6f; in cluster mode 2f96 stands in front of the name.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError  # noqa: N812 - the module's own name, `error`, says nothing here
from typing import Final, NamedTuple

from engine.errors import CorruptionError
from engine.values.encoding import U32, U64

DEFAULT_NAMESPACE: Final = b"__namespace"

NAMESPACE_BYTES_MAX: Final = 255

_SLOT: Final = Struct(">H")


class Owner(NamedTuple):
    """A key of Kvrocks. `slot` is None outside of cluster mode."""

    namespace: bytes
    slot: int | None
    name: bytes


def namespace_prefix(namespace: bytes, slot: int | None = None) -> bytes:
    """What all keys of a namespace begin with, or those of one of its slots.

    Raises:
        ValueError: Kvrocks has no namespace of that name: it is too long.
    """
    if len(namespace) > NAMESPACE_BYTES_MAX:
        message = f"a namespace of {len(namespace)} bytes: at most {NAMESPACE_BYTES_MAX}"
        raise ValueError(message)
    head = bytes((len(namespace),)) + namespace
    return head if slot is None else head + _SLOT.pack(slot)


def metadata_key(owner: Owner) -> bytes:
    """The key of its record in `metadata`."""
    return namespace_prefix(owner.namespace, owner.slot) + owner.name


def subkey_prefix(owner: Owner, version: int) -> bytes:
    """What the subkeys of one version of it begin with."""
    head = namespace_prefix(owner.namespace, owner.slot)
    return head + U32.pack(len(owner.name)) + owner.name + U64.pack(version)


def parse_metadata_key(key: bytes, *, has_slot: bool) -> Owner:
    """The key whose metadata record this is.

    Raises:
        CorruptionError: it is too short.
    """
    head, namespace, slot = _parse_head(key, has_slot=has_slot)
    return Owner(namespace, slot, key[head:])


def _parse_head(key: bytes, *, has_slot: bool) -> tuple[int, bytes, int | None]:
    """The length of what stands in front of the name, the namespace and the slot."""
    end = 1 + key[0] if key else 1
    if len(key) < end:
        raise _too_short(key)
    if not has_slot:
        return end, key[1:end], None
    try:
        return end + _SLOT.size, key[1:end], _SLOT.unpack_from(key, end)[0]
    except StructError as error:
        raise _too_short(key) from error


def _too_short(key: bytes) -> CorruptionError:
    return CorruptionError(f"record {key.hex()} is too short to be one of Kvrocks'")
