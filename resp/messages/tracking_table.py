"""The keys that clients may have in caches of their own.

    key -> the number of the one client that has read it, or a set of such numbers

A number takes nothing, as it is the client's own object, and a set 216 bytes: most keys have one reader. Measured: 140
bytes for a key of 16 bytes. Keys have no database here, as in Redis: a client may get an invalidation too many, and
none too few.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

_NOBODY: Final[tuple[int, ...]] = ()


class TrackingTable:
    """The keys that clients have read, those that were not read for the longest time first.

    Attributes:
        items: pairs of key and client.
    """

    def __init__(self) -> None:
        self.items = 0
        self._clients: OrderedDict[bytes, int | set[int]] = OrderedDict()

    def __len__(self) -> int:
        """How many keys there are."""
        return len(self._clients)

    def add(self, key: bytes, client: int) -> None:
        """Note that the client has read the key."""
        clients = self._clients.get(key)
        if clients is None:
            self._clients[key] = client
            self.items += 1
            return
        self._clients.move_to_end(key)
        if isinstance(clients, int):
            if clients == client:
                return
            clients = self._clients[key] = {clients}
        self.items += client not in clients
        clients.add(client)

    def take(self, key: bytes) -> Iterable[int]:
        """Forget the key, and return the clients that have read it, in the order of their numbers."""
        return self._taken(self._clients.pop(key, None))

    def take_oldest(self) -> tuple[bytes, Iterable[int]]:
        """Forget the key that was not read for the longest time; KeyError if there is none."""
        key, clients = self._clients.popitem(last=False)
        return key, self._taken(clients)

    def clear(self) -> None:
        """Forget everything."""
        self._clients.clear()
        self.items = 0

    def _taken(self, clients: int | set[int] | None) -> Iterable[int]:
        if clients is None:
            return _NOBODY
        taken = (clients,) if isinstance(clients, int) else tuple(sorted(clients))
        self.items -= len(taken)
        return taken
