"""Claims partitions of a topic through the metadata of the offsets that workers commit.

    OWNER NUMBER        the number grows with each commit

The group has one place for each partition, so two owners overwrite each other in turn, and each finds the other's words
in place of its own. A claim counts as heard only when it has changed: an old one of a worker that is gone does not.
"""

from __future__ import annotations

from collections.abc import Mapping


class KafkaClaims:
    """Writes one worker's claims, and remembers the others'."""

    def __init__(self) -> None:
        self._owner = ""
        self._number = 0
        self._found: dict[int, str] = {}

    def own(self, owner: str) -> None:
        """From now on claims are of this owner."""
        self._owner = owner

    def next_text(self) -> str:
        """The metadata for the next commit; empty while nobody has said who owns."""
        if not self._owner:
            return ""
        self._number += 1
        return f"{self._owner} {self._number}"

    def heard(self, found: Mapping[int, str]) -> dict[int, list[str]]:
        """The owners by partition whose claims are new since the last call; the first call finds none to be new."""
        heard: dict[int, list[str]] = {}
        for partition, text in found.items():
            before = self._found.get(partition)
            self._found[partition] = text
            owner, _, number = text.rpartition(" ")
            if before is not None and text != before and owner and number.isdecimal():
                heard[partition] = [owner]
        return heard
