"""The snapshots of a store: which there are, which are offered, and what nobody needs any more.

    files/SHA256.RANDOM                           a file of a database, by its contents
    snapshots/TOPIC/PARTITION/OFFSET-HASH.json    a manifest, written when all of its files are there
    snapshots/TOPIC/PARTITION/OFFSET-HASH.verified   the mark: that snapshot was restored, and has its digest
    condemned/SHA256.RANDOM                       no manifest named this file when the mark was written

A snapshot is offered while its mark is there. A file that no manifest names is condemned, for ever. It is deleted when
no manifest names it a grace period later. Who uploads relies on no condemned file, but writes the contents again, under
a key that was never there before; and gives up after half of the grace period. So whoever relies on a file has
published its manifest before the file can be deleted, however slow the collectors are, and however many.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from secrets import token_hex
from typing import Any, Final

from ops.snapshots.errors import SnapshotRefusedError
from ops.snapshots.manifest import FILES, Manifest, checksum, name_of, parse_manifest
from ops.snapshots.objects import Objects, Stored
from ops.snapshots.steps import Step, reached
from ops.version import VERSION

_SNAPSHOTS: Final = "snapshots"
_CONDEMNED: Final = "condemned"
_NOW: Final = "collected"
_MANIFEST: Final = ".json"
_MARK: Final = ".verified"
_KEY: Final = re.compile(rf"{_SNAPSHOTS}/([^/]+)/([0-9]+)/(([0-9]+)-[0-9a-f]{{16}})({re.escape(_MANIFEST)})")


@dataclass(frozen=True, slots=True)
class Listed:
    """A snapshot that a store has.

    Attributes:
        topic, partition, next_offset: as its key says.
        name: of the manifest, `OFFSET-HASH`.
        modified_ms: when its manifest was written, by the store's clock.
        checksum: of the manifest's bytes.
        manifest: None: it cannot be read, see `trouble`.
        is_verified: whether it was restored, and had its digest: it is offered.
        trouble: why it cannot be used by anybody; else empty.
    """

    topic: str
    partition: int
    next_offset: int
    name: str
    modified_ms: int
    checksum: str
    manifest: Manifest | None
    is_verified: bool
    trouble: str

    @property
    def id(self) -> str:
        """How an operator names it: `PARTITION/OFFSET-HASH`."""
        return f"{self.partition}/{self.name}"

    @property
    def order(self) -> tuple[int, int]:
        """Of two snapshots of a partition, the newer one has the larger."""
        return self.next_offset, self.modified_ms

    @property
    def key(self) -> str:
        """The key of the manifest, without its ending."""
        return f"{_SNAPSHOTS}/{self.topic}/{self.partition}/{self.name}"

    def usable(self) -> Manifest:
        """The manifest.

        Raises:
            SnapshotRefusedError: it cannot be read.
        """
        if self.manifest is None:
            raise SnapshotRefusedError(f"snapshot {self.id}: {self.trouble}")
        return self.manifest


class Inventory:
    """The objects of files in a store on which a new snapshot may rely.

    Args:
        names: of all that are not condemned.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._objects = {name.partition(".")[0]: f"{FILES}/{name}" for name in names}

    def find(self, sha256: str) -> str | None:
        """The object with these contents; None: it is to be written."""
        return self._objects.get(sha256)

    def add(self, sha256: str) -> str:
        """A key for an object with these contents, which is to be written; none ever had it."""
        self._objects[sha256] = f"{FILES}/{sha256}.{token_hex(4)}"
        return self._objects[sha256]


class SnapshotStore:
    """The snapshots in a store of objects.

    Args:
        objects: where they are.
    """

    def __init__(self, objects: Objects) -> None:
        self.objects = objects

    @property
    def label(self) -> str:
        """The address, without credentials."""
        return self.objects.label

    # ------------------------------------------------------------------ reading

    def topics(self) -> list[str]:
        """The topics of which there are snapshots."""
        return sorted({match[1] for match, _ in self._keys(_SNAPSHOTS)})

    def partitions(self, topic: str) -> list[int]:
        """The partitions of which there are snapshots, ascending."""
        return sorted({int(match[2]) for match, _ in self._keys(f"{_SNAPSHOTS}/{topic}")})

    def listed(self, topic: str, partition: int | None = None) -> list[Listed]:
        """The snapshots of a topic, or of one of its partitions, by partition and position, the oldest first."""
        prefix = f"{_SNAPSHOTS}/{topic}" if partition is None else f"{_SNAPSHOTS}/{topic}/{partition}"
        found = [self._look(match, stored) for match, stored in self._keys(prefix)]
        there = (each for each in found if each is not None)
        return sorted(there, key=lambda each: (each.partition, each.order, each.name))

    def offered(self, topic: str, partition: int) -> list[Listed]:
        """The verified snapshots of a partition, the oldest first."""
        return [each for each in self.listed(topic, partition) if each.is_verified]

    def oldest_verified(self, topic: str, partition: int) -> Listed | None:
        """The verified snapshot of a partition with the lowest position; None where there is none."""
        return next(iter(self.offered(topic, partition)), None)

    def is_offered(self, snapshot: Listed) -> bool:
        """Whether a snapshot is offered at this moment: its manifest and its mark are there."""
        data = self.objects.get(snapshot.key + _MANIFEST)
        return data is not None and self._is_marked(snapshot.key, checksum(data))

    def _keys(self, prefix: str) -> Iterator[tuple[re.Match[str], Stored]]:
        for stored in self.objects.listed(prefix):
            if match := _KEY.fullmatch(stored.key):
                yield match, stored

    def _look(self, match: re.Match[str], stored: Stored) -> Listed | None:
        """What there is under a key; None where it was deleted meanwhile."""
        topic, partition, name, offset = match[1], int(match[2]), match[3], int(match[4])
        data = self.objects.get(stored.key)
        if data is None:
            return None
        manifest, trouble = None, ""
        try:
            manifest = _parse(data, name, topic, partition)
        except SnapshotRefusedError as error:
            trouble = str(error)
        found = checksum(data)
        marked = manifest is not None and self._is_marked(stored.key.removesuffix(_MANIFEST), found)
        return Listed(topic, partition, offset, name, stored.modified_ms, found, manifest, marked, trouble)

    def _is_marked(self, key: str, found: str) -> bool:
        mark = self.objects.get(key + _MARK)
        if mark is None:
            return False
        try:
            said = json.loads(mark)
        except ValueError:
            return False
        return isinstance(said, dict) and said.get("manifest") == found

    # ------------------------------------------------------------------ writing

    def publish(self, manifest: Manifest) -> Listed:
        """Write a manifest, all files of which are there. The snapshot is not offered yet."""
        data = manifest.pack()
        snapshot = Listed(
            topic=manifest.topic,
            partition=manifest.partition,
            next_offset=manifest.next_offset,
            name=name_of(manifest.next_offset, data),
            modified_ms=manifest.taken_ms,
            checksum=checksum(data),
            manifest=manifest,
            is_verified=False,
            trouble="",
        )
        self.objects.put(snapshot.key + _MANIFEST, data)
        reached(Step.PUBLISHED)
        return snapshot

    def mark_verified(self, snapshot: Listed, now_ms: int) -> None:
        """Offer a snapshot that was restored and has its digest.

        Args:
            snapshot: with its manifest.
            now_ms: wall time.
        """
        said = {"manifest": snapshot.checksum, "verified_ms": now_ms, "slotlog": VERSION}
        self.objects.put(snapshot.key + _MARK, json.dumps(said).encode())
        reached(Step.MARKED)

    def withdraw(self, snapshot: Listed) -> None:
        """Offer a snapshot no more."""
        self.objects.delete(snapshot.key + _MARK)
        reached(Step.UNMARKED)

    def delete(self, snapshot: Listed) -> None:
        """Delete a snapshot; `collect` later deletes the files that no other one has."""
        self.withdraw(snapshot)
        self.objects.delete(snapshot.key + _MANIFEST)

    def inventory(self) -> Inventory:
        """The objects of files that there are at this moment."""
        condemned = {stored.key.partition("/")[2] for stored in self.objects.listed(_CONDEMNED)}  # first
        there = (stored.key.partition("/")[2] for stored in self.objects.listed(FILES))
        return Inventory(name for name in there if name not in condemned)

    # ------------------------------------------------------------------ collecting

    def collect(self, grace_ms: int) -> tuple[int, int]:
        """Condemn the files that no manifest names, and delete those that were condemned a grace period ago.

        Args:
            grace_ms: longer than any upload takes, twice.

        Returns:
            How many files were deleted, and their bytes.

        Raises:
            SnapshotRefusedError: a manifest cannot be read, so that nobody knows which files it needs.
        """
        # In this order: whoever relies on a file whose mark is old by now has published, so the manifests come last.
        marks = {stored.key.partition("/")[2]: stored.modified_ms for stored in self.objects.listed(_CONDEMNED)}
        now_ms = self._store_ms()
        files = {stored.key.partition("/")[2]: stored for stored in self.objects.listed(FILES)}
        needed = self._needed()
        deleted = deleted_bytes = 0
        for name, stored in files.items():
            if stored.key in needed:
                continue
            if name not in marks:
                if now_ms - stored.modified_ms > grace_ms:  # else its manifest may be still to come
                    self.objects.put(f"{_CONDEMNED}/{name}", b"")
                    reached(Step.CONDEMNED)
            elif now_ms - marks[name] > grace_ms:
                self.objects.delete(stored.key)
                reached(Step.COLLECTED)
                deleted, deleted_bytes = deleted + 1, deleted_bytes + stored.size
        for name, marked_ms in marks.items():
            if name not in files and now_ms - marked_ms > 2 * grace_ms:  # nobody's list of files has it any more
                self.objects.delete(f"{_CONDEMNED}/{name}")
        return deleted, deleted_bytes

    def _needed(self) -> set[str]:
        """The objects that the manifests name."""
        return set(_objects_of(each for topic in self.topics() for each in self.listed(topic)))

    def _store_ms(self) -> int:
        """The time by the store's clock, which all of its objects have their times by."""
        self.objects.put(f"{_NOW}/now", b"")
        return max(stored.modified_ms for stored in self.objects.listed(_NOW))


def _parse(data: bytes, name: str, topic: str, partition: int) -> Manifest:
    manifest = parse_manifest(data, name)
    if (manifest.topic, manifest.partition) != (topic, partition):
        raise SnapshotRefusedError(f"its manifest is that of partition {manifest.partition} of {manifest.topic}")
    return manifest


def _objects_of(snapshots: Iterable[Listed]) -> Iterator[str]:
    for each in snapshots:
        if each.manifest is None:
            raise SnapshotRefusedError(
                f"no file can be deleted while nobody knows what snapshot {each.id} of {each.topic} needs:"
                f" {each.trouble}; delete it (`slotlog snapshots delete {each.id}`)"
            )
        yield from (file.object for file in each.manifest.files)


def facts(snapshot: Listed) -> dict[str, Any]:
    """A snapshot, for JSON."""
    manifest = snapshot.manifest
    said: dict[str, Any] = {
        "id": snapshot.id,
        "partition": snapshot.partition,
        "next_offset": snapshot.next_offset,
        "verified": snapshot.is_verified,
    }
    if manifest is None:
        return {**said, "error": snapshot.trouble}
    return {
        **said,
        "clock_ms": manifest.clock_ms,
        "taken_ms": manifest.taken_ms,
        "layout": manifest.layout,
        "keys": manifest.keys,
        "digest": manifest.digest,
        "bytes": manifest.size,
    }
