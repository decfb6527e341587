"""Runs a command while somebody looks at what it changes: sessions that watch keys, clients that wait for them."""

from __future__ import annotations

from engine.applied import Applied
from engine.effects import KEY, LAST_FIELD
from engine.registry import Spec
from engine.replies import Reply
from engine.transaction import Transaction


def run_observed(tx: Transaction, spec: Spec, args: list[bytes], offset: int, witness: Applied | None) -> Reply:
    """Run a command, break the watches of the keys that it modified, and tell `witness`, if any, which they are.

    Raises:
        CommandError: its own.
    """
    tx.observe()
    try:
        return spec.handler(tx, args)
    finally:
        effects = tx.end_observation()
        if effects:
            if tx.watches:
                for db, name, _, _, _ in effects:
                    tx.watches.mark((db, name), tx.now_ms)
            if witness is not None:
                names = spec.keys(args)
                for db, name, before, after, due in effects:
                    if due == KEY:
                        witness.expired.append((len(witness.touched), db, name))
                    elif due:
                        witness.expired_fields.append((len(witness.touched), db, name, due == LAST_FIELD))
                    which = names.index(name) if name in names else -1
                    witness.touched.append((offset, db, spec.name, args, which, name, before, after, tx.now_ms))
