"""Keys that were modified, by the prefixes of CLIENT TRACKING ON BCAST, until they are told.

As in Redis, one message for each prefix tells all keys of one turn of the event loop, in the order of their bytes.
"""

from __future__ import annotations

from collections.abc import Iterator


class _Prefix:
    """One prefix: who asked for it, and what was modified since they were told, with who modified it last, if known."""

    __slots__ = ("clients", "keys")

    def __init__(self) -> None:
        self.clients: dict[int, None] = {}
        self.keys: dict[bytes, int | None] = {}


class Broadcast:
    """The prefixes of all clients.

    A key costs one look-up for each length that a prefix has, not one for each prefix.
    """

    def __init__(self) -> None:
        self._prefixes: dict[bytes, _Prefix] = {}
        self._lengths: dict[int, int] = {}

    def __len__(self) -> int:
        """How many prefixes there are."""
        return len(self._prefixes)

    def add(self, prefix: bytes, client: int) -> None:
        """Let the client hear of keys with this prefix."""
        if prefix not in self._prefixes:
            self._prefixes[prefix] = _Prefix()
            self._lengths[len(prefix)] = self._lengths.get(len(prefix), 0) + 1
        self._prefixes[prefix].clients[client] = None

    def remove(self, prefix: bytes, client: int) -> None:
        """Let it hear of them no more."""
        found = self._prefixes[prefix]
        del found.clients[client]
        if not found.clients:
            del self._prefixes[prefix]
            self._lengths[len(prefix)] -= 1
            if not self._lengths[len(prefix)]:
                del self._lengths[len(prefix)]

    def note(self, key: bytes, writer: int | None) -> bool:
        """Note that a key was modified; False: nobody asked for it.

        Args:
            key: modified.
            writer: the client that did it, if one here did.
        """
        noted = False
        for length in self._lengths:
            if length <= len(key) and (prefix := self._prefixes.get(key[:length])) is not None:
                prefix.keys[key] = writer
                noted = True
        return noted

    def take(self) -> Iterator[tuple[list[int], dict[bytes, int | None]]]:
        """For each prefix with keys to tell: the clients, and the keys in order, each with who modified it."""
        for name in sorted(self._prefixes):
            found = self._prefixes[name]
            if found.keys:
                keys, found.keys = dict(sorted(found.keys.items())), {}
                yield list(found.clients), keys
