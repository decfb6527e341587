"""rocksdict 0.3.29 lets one thread compact while another closes: `engine/store/rocks.py` relies on it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from time import monotonic, sleep

import pytest
import rocksdict as rd  # noqa: TID251 - the library itself is what is tested here

from tests.engine.store.test_rocksdict_traps import open_database, options


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Where the database of a test lies."""
    return str(tmp_path / "db")


@contextmanager
def compacting(path: str) -> Iterator[tuple[rd.Rdict, rd.Rdict, list[str]]]:
    """A database, the handle by which a thread compacts it, slowly, and what that raised: empty text for nothing."""
    database = open_database(path)
    draws = Random(1)
    for _ in range(2):
        for n in range(10_000):
            database[b"%06d" % n] = draws.randbytes(1000)
        database.flush()
    database.close()
    limited = options()
    limited.set_ratelimiter(1 << 19, 100_000, 10)
    database = rd.Rdict(path, limited, column_families={"default": rd.Options(raw_mode=True)})
    own = database.get_column_family("default")
    raised: list[str] = []

    def compact() -> None:
        try:
            own.compact_range(None, None)
        except Exception as error:  # noqa: BLE001 - rocksdict raises nothing else
            raised.append(str(error))
        else:
            raised.append("")

    thread = threading.Thread(target=compact)
    thread.start()
    while not database.property_int_value("rocksdb.num-running-compactions"):
        sleep(0.01)
    yield database, own, raised
    with suppress(Exception):
        database.cancel_all_background(wait=False)
    with suppress(Exception):
        own.cancel_all_background(wait=False)
    thread.join(60)
    assert not thread.is_alive()
    with suppress(Exception):
        own.close()


def test_a_handle_that_compacts_cannot_be_closed(path: str) -> None:
    """`close` of the handle by which another thread compacts raises. The store's threads have handles of their own."""
    with compacting(path) as (_, own, raised):
        with pytest.raises(RuntimeError, match="Already borrowed"):
            own.close()
        assert [] == raised


def test_another_handle_can_be_closed_during_a_compaction(path: str) -> None:
    """The database itself closes while another handle compacts; the lock stays until that handle is closed, too."""
    with compacting(path) as (database, _, raised):
        database.close()
        assert [] == raised
        with pytest.raises(Exception, match="lock hold by current process"):
            open_database(path)

    assert 10_000 == len(list(open_database(path).keys()))


def test_a_compaction_can_be_broken_off(path: str) -> None:
    """`cancel_all_background` ends it, without an error; what closes then may complain of the shutdown, and is closed.

    The store does so when it is closed, so that nobody waits for a compaction.
    """
    with compacting(path) as (database, own, raised):
        database[b"last"] = b"1"
        database.cancel_all_background(wait=False)
        deadline = monotonic() + 30
        while not raised and monotonic() < deadline:
            sleep(0.01)
        assert [""] == raised
        for handle in (own, database):
            with pytest.raises(Exception, match="Shutdown in progress"):
                handle.close()

    assert b"1" == open_database(path).get(b"last")


def test_a_closed_database_gives_no_handle(path: str) -> None:
    """It says so at once, instead of opening anything: what a thread of the store that comes too late relies on."""
    database = open_database(path)
    database.close()

    with pytest.raises(rd.DbClosedError):
        database.get_column_family("default")
