"""Scripts that other partitions of this worker know: to clients it is one server, so EVALSHA finds them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from engine.apply.script_sources import ReadSources
from engine.tables.scripts import digest_of

if TYPE_CHECKING:
    from resp.writes.write_pipeline import WritePipeline

_BY_SOURCE: Final = {b"EVALSHA": b"EVAL", b"EVALSHA_RO": b"EVAL_RO"}


class KnownScripts:
    """The scripts of all partitions of a worker, and those that its clients have sent last.

    A client may send EVALSHA to one partition behind EVAL to another one, before that is applied: ioredis does.

    Args:
        groups: the write pipelines by partition, those of partitions that are owned and of those that are followed.
    """

    def __init__(self, *groups: Mapping[int, WritePipeline]) -> None:
        self._groups = groups
        self._sent = {name: ReadSources() for name in _BY_SOURCE.values()}

    def event(self, pipeline: WritePipeline, name: bytes, args: list[bytes]) -> tuple[bytes, list[bytes]]:
        """A script as its partition can run it: by its source, where the SHA-1 says nothing there."""
        if name in _BY_SOURCE:
            source = None if _find(pipeline, args[0]) is not None else self._find_elsewhere(name, args[0])
            return (name, args) if source is None else (_BY_SOURCE[name], [source, *args[1:]])
        if name in self._sent:
            self._sent[name].add(digest_of(args[0]), args[0])
        return name, args

    def forget(self) -> None:
        """Forget what clients have sent: SCRIPT FLUSH."""
        for sources in self._sent.values():
            sources.clear()

    def _find_elsewhere(self, name: bytes, sha: bytes) -> bytes | None:
        for group in self._groups:
            for pipeline in group.values():
                source = _find(pipeline, sha)
                if source is not None:
                    return source
        sent = self._sent[b"EVAL"].get(sha.lower())
        return self._sent[b"EVAL_RO"].get(sha.lower()) if sent is None and name == b"EVALSHA_RO" else sent


def _find(pipeline: WritePipeline, sha: bytes) -> bytes | None:
    """The source that a partition keeps under a SHA-1; None when it has none, or is closed."""
    return pipeline.machine.kept[0].find(sha) if pipeline.owned.worker.is_open else None
