"""Audits a state against engine/FORMAT.md and reports every violation, in one ordered walk.

Each column family is read once, in key order, and merged with the metadata; besides, metadata and graveyard are read
once more, and two records are looked up for each key with a time to live. Nothing is written.

Memory stays bounded, whatever the state holds: what has to be put into another order (graves by key, versions) is
sorted in chunks of 64 MiB (`engine.proof.audit.walk.HELD_BYTES`), one reading of its column family for each chunk,
which are some 600,000 of either; of a sorted set with rank counts its groups are held, of 10^6 members some 150.

What is found is physical: it says nothing of whether the content is what the log says. For that there is a replay.
"""

from __future__ import annotations

from engine.proof.audit.audit import Audit
from engine.proof.audit.violation import KINDS, Violation

__all__ = ["KINDS", "Audit", "Violation"]
