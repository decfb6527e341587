"""Live views of a process's partitions: those that it applies now, and those of them that it owns."""

from __future__ import annotations

from collections.abc import Container, ItemsView, Iterator, KeysView, Mapping, ValuesView

from ingest.applying.partitions.owned_partition import OwnedPartition
from ingest.membership.plan import Role


class LivePartitions(Mapping[int, OwnedPartition]):
    """The partitions that have one of some roles now, by number.

    Who walks over it sees those that were there when the walk began. One that has gone since is still found by its
    number, and is closed.

    Args:
        every: all that this process may ever apply.
        roles: of those in this view.
    """

    def __init__(self, every: Mapping[int, OwnedPartition], roles: Container[Role]) -> None:
        self._every = every
        self._roles = roles
        self._there: dict[int, OwnedPartition] = {}
        self.refresh()

    def refresh(self) -> None:
        """Note that roles have changed."""
        self._there = {partition: owned for partition, owned in self._every.items() if owned.role in self._roles}

    def __getitem__(self, partition: int) -> OwnedPartition:
        """Of any role."""
        return self._every[partition]

    def __contains__(self, partition: object) -> bool:
        """Whether it has one of the roles."""
        return partition in self._there

    def __iter__(self) -> Iterator[int]:
        """Their numbers."""
        return iter(self._there)

    def __len__(self) -> int:
        """How many there are."""
        return len(self._there)

    def keys(self) -> KeysView[int]:
        """Of those that are there now, as are the two below."""
        return self._there.keys()

    def items(self) -> ItemsView[int, OwnedPartition]:
        """Number and partition."""
        return self._there.items()

    def values(self) -> ValuesView[OwnedPartition]:
        """Partitions."""
        return self._there.values()
