from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
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
        listings: dict[bytes, bytes],
        make_listing: Callable[[Any], bytes],
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
    ) -> Self: ...
    def others(self, records: Sequence[Record], applied: object, waiting: Container[int], /) -> Run: ...

class ClientPath:
    def __new__(
        cls,
        *,
        server: object,
        stats: object,
        accounting: object,
        served: tuple[tuple[Any, Path, Any, Any, Any] | None, ...],
        by_spelling: Mapping[bytes, Any],
        plain_writes: Mapping[bytes, Any],
        now_ms: Callable[[], int],
        monotonic: Callable[[], float],
        encode3: Callable[[Any], bytes],
        count_max: int,
        items_max: int,
        data_bytes_max: int,
        pending_replies_max: int,
        ahead_bytes: int,
        pending_events_max: int,
        pending_bytes_max: int,
        sent_bytes_max: int,
        mean_bytes_max: int,
        window_max: int,
        run_seconds: float,
    ) -> Self: ...
    def take(self, session: Any, data: bytes, /) -> int: ...
    def send(self, sessions: Iterable[Any], /) -> None: ...

class PackedElements:
    @property
    def held_bytes(self) -> int: ...
    def __len__(self) -> int: ...
    @property
    def whole(self) -> bool: ...
    def get(self, element: bytes, default: bytes, /) -> bytes | None: ...
    def put(self, element: bytes, value: bytes, /) -> None: ...
    def discard(self, element: bytes, /) -> None: ...

class PackedMemory:
    def __new__(cls, bytes_max: int) -> Self: ...
    def limit(self, bytes_max: int, /) -> None: ...
    @property
    def bytes_max(self) -> int: ...
    @property
    def held_bytes(self) -> int: ...
    @property
    def elements(self) -> int: ...
    def table(self) -> PackedElements: ...

class Getter:
    def __new__(cls, gathered: dict[bytes, bytes | None], get: Callable[[bytes], bytes | None], /) -> Self: ...
    def __call__(self, key: bytes, /) -> bytes | None: ...

class Run(Iterator[Record]):
    def __next__(self) -> Record: ...
    def at_hand(self, offset: int, name: bytes, /) -> tuple[int, bytes]: ...
    def end(self, offset: int, /) -> tuple[int, int]: ...

def bring_in_order(order: list[bytes], values: dict[bytes, bytes | None], /) -> None: ...
def gather(
    gathered: Mapping[str, dict[bytes, bytes | None]], values: Mapping[str, dict[bytes, bytes | None]], /
) -> int: ...
def put_all(batch: object, records: dict[bytes, bytes | None], sorted_from: int, /) -> int: ...
def configure(
    key: object, subkeys: type, transaction: type, ranks: type, stretches: type, holders: type, /
) -> None: ...
def decode_run(
    batch: Sequence[tuple[int, int, bytes | None, bytes | None]],
    heads: Mapping[bytes, bytes],
    size_max: int,
    transaction: bytes,
    decode: Callable[[int, int, bytes | None], Record],
    /,
) -> list[Record]: ...
def mark_written(keys: list[Any], at: int, listings: dict[bytes, bytes], forget: Callable[[bytes], None], /) -> int: ...
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
    kept_max: int,
    packed: PackedMemory,
    /,
) -> tuple[int, int, int]: ...
def configure_clients(
    session: type,
    output: type,
    inbox: type,
    parser: type,
    window: type,
    stats: type,
    distribution: type,
    accounting: type,
    plan: type,
    answers: type,
    outbox: type,
    /,
) -> None: ...
def configure_items(item: type, entry: type, item_bytes: int, record_bytes_max: int, arguments_max: int, /) -> None: ...
def answer_writes(
    replies: list[tuple[Any, Any]],
    at: int,
    ok: object,
    encode2: Callable[[Any], bytes],
    encode3: Callable[[Any], bytes],
    ready: dict[Any, None],
    large: int,
    /,
) -> int: ...
def pack_listing(
    records: list[tuple[bytes, bytes]], skip: int, with_subkeys: bool, with_values: bool, most: int, /
) -> bytes | None: ...
def parse_commands(data: bytes, commands: list[list[bytes]], count_max: int, /) -> int: ...
def read_run(
    served: tuple[tuple[Any, Any, Any, Any, Any] | None, ...],
    kind: int,
    commands: list[list[bytes]],
    at: int,
    wall_ms: int,
    is_resp3: bool,
    parts: list[bytes],
    /,
) -> tuple[int, int, int]: ...
def records_of(items: list[Any], positions: list[Any], /) -> list[Record] | None: ...
def rows_of(
    entries: Sequence[Any], partition: int, begin: int, time_ms: int, link: int, position_type: type, /
) -> tuple[list[Any], list[Any], int] | None: ...
def take_data(
    data: bytes,
    plain_writes: Mapping[bytes, tuple[Any, bytes, bytes, int, int, int]],
    session: object,
    count_max: int,
    most: int,
    served: tuple[Any, ...],
    /,
) -> tuple[list[Any], int, int]: ...
def take_filled(places: Any, parts: list[bytes], /) -> int: ...
def take_writes(
    commands: list[list[bytes]],
    at: int,
    end: int,
    session: object,
    plan: object,
    name: bytes,
    head: bytes,
    first: int,
    least: int,
    most: int,
    free_bytes: int,
    partition: int,
    partitions: int,
    /,
) -> tuple[list[Any], int]: ...
