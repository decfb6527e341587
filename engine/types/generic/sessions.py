"""WATCH and its end, and SWAPDB."""

from __future__ import annotations

from collections.abc import Iterable

from engine.batch.transaction import Transaction
from engine.errors import TOO_MANY_WATCHES, CommandError
from engine.limits import WATCHED_KEYS_MAX
from engine.tables.watches import Place


def watch(tx: Transaction, session: bytes, names: Iterable[bytes]) -> None:
    """Let the session's EXEC do nothing once one of these keys was modified, or has died.

    Raises:
        CommandError: the session would watch too many keys.
    """
    watches = tx.watches
    if watches.is_lost(session, tx.now_ms):
        return
    new = watches.missing(session, [(tx.db, name) for name in names])
    if watches.count(session) + len(new) > WATCHED_KEYS_MAX:
        raise CommandError(TOO_MANY_WATCHES)
    watches.forget_first(tx.now_ms)
    for place in new:
        watches.add(session, place, tx.now_ms, alive=_is_alive(tx, place))


def end_watches(tx: Transaction, session: bytes) -> bool:
    """Forget what the session watches. Returns whether it watched anything and nothing of it was lost."""
    alive_then = tx.watches.end(session, tx.now_ms)
    return alive_then is not None and all(_is_alive(tx, place) for place in alive_then)


def swap_databases(tx: Transaction, first: int, second: int) -> None:
    """Let two logical databases change places: O(1), and one look at each key in them that is watched.

    As in Redis, a watch is lost when either database has the key: its content is another one from now on.
    """
    if first == second:
        return
    for db, name in tx.watches.places((first, second)):
        if _is_alive(tx, (first, name)) or _is_alive(tx, (second, name)):
            tx.watches.mark((db, name), tx.now_ms)
    stored = list(tx.stored_dbs)
    stored[first], stored[second] = stored[second], stored[first]
    tx.stored_dbs = tuple(stored)
    tx.select(tx.db)


def _is_alive(tx: Transaction, place: Place) -> bool:
    """Whether a key of any database is alive."""
    db, name = place
    current = tx.db
    tx.select(db)
    alive = tx.find(name) is not None
    tx.select(current)
    return alive
