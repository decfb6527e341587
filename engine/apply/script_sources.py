"""Script sources that reads on a server have brought: in memory alone, so no event may depend on them."""

from __future__ import annotations

from collections import OrderedDict

from engine.limits import EVAL_SCRIPTS_MAX, READ_SCRIPT_BYTES_MAX


class ReadSources:
    """Source by SHA-1; beyond either limit the oldest are forgotten."""

    def __init__(self) -> None:
        self._sources: OrderedDict[bytes, bytes] = OrderedDict()
        self._bytes = 0

    def add(self, sha: bytes, source: bytes) -> None:
        """Keep a source, unless it is there."""
        if sha in self._sources:
            return
        self._sources[sha] = source
        self._bytes += len(source)
        while len(self._sources) > EVAL_SCRIPTS_MAX or self._bytes > READ_SCRIPT_BYTES_MAX:
            self._bytes -= len(self._sources.popitem(last=False)[1])

    def get(self, sha: bytes) -> bytes | None:
        """The source, if it is there."""
        return self._sources.get(sha)

    def clear(self) -> None:
        """Forget all of them."""
        self._sources.clear()
        self._bytes = 0
