"""Runs a command while somebody looks at what it changes: sessions that watch keys, clients that wait for them."""

from __future__ import annotations

from engine.apply.records import Applied
from engine.batch.effects import KEY, LAST_FIELD
from engine.batch.transaction import Transaction
from engine.commands.registry import Spec
from engine.errors import CommandError
from engine.values.replies import Reply


def run_watched(
    tx: Transaction, spec: Spec, args: list[bytes], offset: int, witness: Applied | None, *, verify: bool
) -> Reply:
    """Run a command while somebody may look: a watch, a server, or a test whether it fails without a trace.

    Args:
        tx: what it runs against.
        spec: the command.
        args: what follows its name.
        offset: of its record.
        witness: told which keys it has modified; None: nobody wants to know.
        verify: prove that it changed nothing if it fails. Slow.

    Raises:
        CommandError: its own.
        AssertionError: it failed after it had changed something.
    """
    watched = spec.write and bool(tx.watches)
    if watched:
        tx.watches.age(tx.now_ms)
    before = tx.image() if verify else None
    try:
        if watched or (spec.write and witness is not None):
            return run_observed(tx, spec, args, offset, witness)
        return spec.handler(tx, args)
    except CommandError as error:
        if verify and tx.image() != before:
            message = f"{spec.name!r} changed something before it failed"
            raise AssertionError(message) from error
        raise


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
                        witness.expired.append((len(witness.modified), db, name))
                    elif due:
                        witness.expired_fields.append((len(witness.modified), db, name, due == LAST_FIELD))
                    which = names.index(name) if name in names else -1
                    witness.modified.append((offset, db, spec.name, args, which, name, before, after, tx.now_ms))
