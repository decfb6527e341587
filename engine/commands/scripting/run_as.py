"""RUNAS: a script with the rights of its user. A server appends it for one who may not do everything."""

from __future__ import annotations

from engine.batch.transaction import Transaction
from engine.commands.registry import SPECS
from engine.commands.scripting.evaluation import reading_script, writing_script
from engine.commands.scripting.rights import Rights
from engine.errors import CommandError
from engine.values.replies import Reply


@writing_script(
    "RUNAS user rights command script numkeys [key [key ...]] [arg [arg ...]]",
    group="slotlog",
    of="slotlog",
    since="1",
    internal=True,
)
def run_as(tx: Transaction, args: list[bytes]) -> Reply:
    """Run a script whose commands are held against the rights of its user.

    > RUNAS ann "-flushall ~a*" EVAL "return redis.call('GET', 'a')" 0
    (nil)
    """
    return _run_as(tx, args)


@reading_script(
    "RUNAS_RO user rights command script numkeys [key [key ...]] [arg [arg ...]]",
    group="slotlog",
    of="slotlog",
    since="1",
    internal=True,
)
def run_as_ro(tx: Transaction, args: list[bytes]) -> Reply:
    """Run a script that only reads, whose commands are held against the rights of its user.

    > RUNAS_RO ann "-flushall ~a*" EVAL_RO "return redis.call('GET', 'a')" 0
    (nil)
    """
    return _run_as(tx, args)


def _run_as(tx: Transaction, args: list[bytes]) -> Reply:
    user, rights, name, *rest = args
    spec = SPECS.get(name.upper())
    if spec is None or not spec.runs_others or spec.internal:
        raise CommandError("ERR only a script runs as somebody")
    tx.runner.rights = Rights(user, rights)
    try:
        return spec.handler(tx, rest)
    finally:
        tx.runner.rights = None
