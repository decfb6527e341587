"""Audits that no version is taken twice: by keys, by graves, or by collections that are not named yet."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import Final

from engine.batch.staging import MARK
from engine.proof.audit.graves import Graves
from engine.proof.audit.readable import marks, readable_keys
from engine.proof.audit.violation import State, Violation, Violations
from engine.proof.audit.walk import in_order
from engine.values.encoding import U64, pack_u64, parse_u64

_KEY, _GRAVE, _STAGED = range(3)
_HOLDERS: Final = {_KEY: "the key", _GRAVE: "the grave of", _STAGED: "what is staged for"}


def check_versions(state: State, graves: Graves) -> Violations:
    """No version is there twice, whether a key has it, a grave, or what is not named yet."""
    for first, second in pairwise(in_order(partial(_versions, state, graves))):
        if first[: U64.size] == second[: U64.size]:
            version, holders = parse_u64(first[: U64.size]), f"{_holder(first)} and {_holder(second)}"
            text = f"version {version} is there twice: of {holders}"
            yield Violation("versions", state.metadata_cf, first[U64.size + 1 :], text)


def _versions(state: State, graves: Graves) -> Iterator[bytes]:
    """`[version:8][what has it:1]` and the metadata key; of graves, the time behind it."""
    for key, metadata in readable_keys(state):
        if metadata.version:
            yield pack_u64(metadata.version) + bytes((_KEY,)) + key
    for grave in graves.readable():
        yield pack_u64(grave.version) + bytes((_GRAVE,)) + grave.metadata_key + pack_u64(grave.died_ms)
    for mark, key in marks(state):
        if len(mark) == len(MARK) + U64.size:
            yield mark[len(MARK) :] + bytes((_STAGED,)) + key


def _holder(packed: bytes) -> str:
    return f"{_HOLDERS[packed[U64.size]]} {packed[U64.size + 1 :].hex()}"
