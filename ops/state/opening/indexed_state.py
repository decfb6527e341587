"""Opens a state together with the index, outside of it, that has its sorted sets."""

from __future__ import annotations

from engine.errors import StateMismatchError
from engine.layouts import make_layout
from engine.layouts.index import BATCH, Index
from engine.layouts.indexed import IndexedStore
from engine.layouts.layout import Indexing
from engine.store.directory import identity
from engine.store.rocks import RocksStore
from engine.store.store import LOCAL_CF
from ops.config import ConfigError, Settings


class IndexedState(IndexedStore):
    """A state in RocksDB, and the index beside it.

    Attributes:
        path: of the state.
    """

    def __init__(self, store: RocksStore, layout: Indexing, index: Index, *, read_only: bool = False) -> None:
        super().__init__(store, layout, index, read_only=read_only)
        self.path = store.path
        self.disk_bytes = store.disk_bytes


StateStore = RocksStore | IndexedState
"""What a state is opened as."""


def with_index(store: RocksStore, settings: Settings, partition: int, *, read_only: bool = False) -> StateStore:
    """The store, with the index that the settings name. When this raises, the store is closed.

    Raises:
        ConfigError: the layout has no index, or the settings do not say where that of this state is.
        StateMismatchError: as `IndexedStore`.
        IndexUnavailableError: it cannot be reached.
    """
    try:
        return _with_index(store, settings, partition, read_only=read_only)
    except BaseException:
        store.close()
        raise


def _with_index(store: RocksStore, settings: Settings, partition: int, *, read_only: bool) -> StateStore:
    url = settings.index.get_secret_value()
    if not url:
        if store.getter(LOCAL_CF)(BATCH) is not None:
            raise ConfigError(
                f"{store.path} has its sorted sets in an index outside of it: say where, SLOTLOG_INDEX=redis://HOST:PORT"
            )
        return store
    layout = make_layout(settings.layout, partition, settings.partitions)
    if not isinstance(layout, Indexing):
        raise ConfigError(
            f"--index: the layout {settings.layout} has its sorted sets in the state; camellia-v1 has an index"
        )
    from ops.state.opening.redis_index import RedisIndex  # noqa: PLC0415 - a state without one does not wait for its client

    owner = identity(store.path).decode(errors="backslashreplace").strip()
    index = RedisIndex(url, settings.topic, partition, owner, pinned=read_only)
    try:
        return IndexedState(store, layout, index, read_only=read_only)
    except StateMismatchError as error:
        index.close()
        raise StateMismatchError(f"{store.path}, {index.label}: {error}") from error
    except BaseException:
        index.close()
        raise
