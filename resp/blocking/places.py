"""Knows who waits for which key, and lets a subclass serve them while nobody changes the state."""

from __future__ import annotations

from resp.blocking.elements import Elements, Partitions
from resp.blocking.waiters import Place, Waiter


class Places:
    """Waiting clients by their keys, in the order in which they came.

    Args:
        partitions: the worker's.
        elements: of their keys.
    """

    def __init__(self, partitions: Partitions, elements: Elements) -> None:
        self._partitions, self._elements = partitions, elements
        self._by_place: dict[Place, dict[Waiter, None]] = {}

    def add(self, waiter: Waiter) -> None:
        """Serve it from now on, behind those that are there already. To be followed by `begin`."""
        for place in waiter.places:
            self._by_place.setdefault(place, {})[waiter] = None

    def remove(self, waiter: Waiter) -> None:
        """Serve it no more."""
        for place in waiter.places:
            at_place = self._by_place[place]
            del at_place[waiter]
            if not at_place:
                del self._by_place[place]

    def look_again(self) -> None:
        """Check all keys: databases were swapped, or a partition runs again, so any key may have elements now."""
        for place in list(self._by_place):
            self.serve(place)

    def serve(self, place: Place) -> None:
        """Serve those who wait at `place`, as far as there is something for them now.

        Where a command is suspended in the partition, as soon as that is done.
        """
        if place not in self._by_place:
            return
        pipeline, slices = self._partitions.pipelines[place[0]], self._partitions.slices
        if pipeline.is_held:
            if slices.fiber is None:
                slices.run(self.serve, place)
                return
            pipeline.owned.worker.gate.enter()
        with slices.whole():  # what is counted must not change on the way
            self._serve_all(place)

    def _serve_all(self, place: Place) -> None:
        """Serve them; nothing else happens meanwhile."""
        raise NotImplementedError
