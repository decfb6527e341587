"""RUNAS: a script with the rights of its user. A server appends it for one who may not do everything.

RUNAS_OOM: the same, of a script that came while the server used more than `maxmemory`. As that stands in the event,
each replay refuses the same commands.
"""

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


@writing_script(
    "RUNAS_OOM user rights command script numkeys [key [key ...]] [arg [arg ...]]",
    group="slotlog",
    of="slotlog",
    since="1",
    internal=True,
)
def run_as_oom(tx: Transaction, args: list[bytes]) -> Reply:
    """Run a script as RUNAS; until one has written, commands that may need more memory are refused.

    > RUNAS_OOM ann "- ~*" EVAL "return redis.pcall('SET', 'a', '1')" 0
    (error) OOM command not allowed when used memory > 'maxmemory'.
    > RUNAS_OOM ann "- ~*" EVAL "redis.call('DEL', 'b') return redis.call('SET', 'a', '1')" 0
    OK
    """
    tx.runner.memory_is_full = True
    try:
        return _run_as(tx, args)
    finally:
        tx.runner.memory_is_full = False


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
