"""Tells whether the keys of a directory name their slots: exactly those of a Kvrocks with `cluster-enabled yes` do.

Nothing on disk says which, and the wrong reading finds other keys without an error. But where slots are, each key has
the right one in front of its name, and elsewhere one key in 16,384 looks so by accident.
"""

from __future__ import annotations

from itertools import islice

from engine.errors import CorruptionError
from engine.layouts.kvrocks.keys import parse_metadata_key
from ops.config import ConfigError
from ops.importing.kvrocks.directory import METADATA, KvrocksDirectory
from slotlog.shared.slots import slot

PLAIN = "kvrocks"
CLUSTER = "kvrocks-cluster"

_SAMPLE = 10_000
_CHANCE = 100
"""Fewer than one key in so many may look as if it named its slot, where none does."""


def has_slots(directory: KvrocksDirectory, layout: str) -> bool:
    """Whether keys name their slots, by the first ones.

    Args:
        directory: of the keys.
        layout: what the user says: with CLUSTER they do, also where not all keys look so.

    Raises:
        ConfigError: it cannot be told, or is not as the user says.
    """
    total = right = 0
    for key, _ in islice(directory.scan(METADATA), _SAMPLE):
        total += 1
        right += _names_its_slot(key)
    if layout == CLUSTER:
        if total and not right:
            raise ConfigError(
                f"{directory.path}: none of the first {total} keys names its slot, so its Kvrocks did not run with"
                f" cluster-enabled yes: say --layout {PLAIN}"
            )
        return True
    if right and right == total:
        return True
    if right * _CHANCE > total:
        raise ConfigError(
            f"{directory.path}: {right} of the first {total} keys name their slots, the others do not, and nothing else"
            f" tells how to read them. If its Kvrocks runs with cluster-enabled yes, say --layout {CLUSTER}: the other"
            " keys, which it does not see either, are then listed"
        )
    return False


def _names_its_slot(key: bytes) -> bool:
    try:
        owner = parse_metadata_key(key, has_slot=True)
    except CorruptionError:
        return False
    return owner.slot == slot(owner.name)
