from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import Any, Self, TypeAlias

Record: TypeAlias = tuple[int, int, bytes, list[Any], int, bytes | None, bytes | None]

INTERFACE: int

class Path:
    def __new__(
        cls,
        *,
        tx: object,
        executor: object,
        dedup: object,
        new_ids: dict[bytes, bytes | None],
        get_id: Callable[[bytes], bytes | None],
        get_metadata: Callable[[bytes], bytes | None] | None,
        load_stored: Callable[[Any, bytes], None],
        prefix_of: Callable[[int], bytes],
        flushed: set[int],
        large: list[Any],
        ok: object,
        parse_double: Callable[[bytes], float | None],
        time_max: int,
        overlay_bytes_max: int,
        window_ms: int,
        cached_bytes_max: int,
        plain_size_max: int,
        partition: int,
        partitions: int,
        block_max: int,
        group_max: int,
        held_max: int,
        scored_max: int,
        notes_max: int,
    ) -> Self: ...
    def others(self, records: Sequence[Record], applied: object, waiting: Container[int], /) -> Run: ...

class Run(Iterator[Record]):
    def __next__(self) -> Record: ...
    def at_hand(self, offset: int, name: bytes, /) -> tuple[int, bytes]: ...
    def end(self, offset: int, /) -> tuple[int, int]: ...

def configure(
    key: object, subkeys: type, transaction: type, ranks: type, stretches: type, holders: type, block_scores: type, /
) -> None: ...
def decode_run(
    batch: Sequence[tuple[int, int, bytes | None, bytes | None]],
    heads: Mapping[bytes, bytes],
    size_max: int,
    transaction: bytes,
    decode: Callable[[int, int, bytes | None], Record],
    /,
) -> list[Record]: ...
def mark_written(keys: list[Any], at: int, /) -> int: ...
def metadata_key(prefix: bytes, name: bytes, /) -> bytes: ...
def write_keys(
    keys: list[Any],
    at: int,
    metadata: dict[bytes, bytes | None],
    data: dict[bytes, bytes | None],
    scores: dict[bytes, bytes | None],
    expiry: dict[bytes, bytes | None],
    ranks: dict[bytes, bytes | None] | None,
    last_version: int,
    /,
) -> int: ...
