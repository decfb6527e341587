"""SCRIPT LOAD, SCRIPT EXISTS, SCRIPT FLUSH and SCRIPT SHOW: the scripts that are stored.

They act on the partition that they are in; a server and a producer send LOAD and FLUSH to each one.
Source: https://valkey.io/commands/script-load/ and its kin.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from engine.batch.transaction import Transaction
from engine.commands.options import read_option
from engine.commands.registry import command
from engine.commands.scripting.evaluation import CATEGORIES
from engine.commands.scripting.shebang import parse
from engine.errors import NO_SCRIPT, CommandError
from engine.tables.scripts import digest_of
from engine.values.replies import OK, Reply

_FLAGS: Final = ("noscript", "stale")
_EVERYWHERE: Final = ("request_policy:all_nodes", "response_policy:all_succeeded")
_script = partial(command, group="scripting", container=True, categories=CATEGORIES, flags=_FLAGS)


@_script(
    "SCRIPT LOAD script", since="2.6.0", complexity="O(n), n the bytes of the script", write=True,
    tips=_EVERYWHERE, notifies="",
)  # fmt: skip
def script_load(tx: Transaction, args: list[bytes]) -> Reply:
    """Keep a script for EVALSHA until SCRIPT FLUSH, without running it. Returns the SHA-1 of its source.

    > SCRIPT LOAD "return 1"
    "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"
    """
    source = args[0]
    sha = digest_of(source)
    tx.runner.check(sha, parse(source).body)
    tx.scripts.keep(sha, source, tx.batch, loaded=True)
    return sha


@_script(
    "SCRIPT EXISTS sha1 [sha1 ...]", since="2.6.0", complexity="O(scripts named)",
    tips=("request_policy:all_shards", "response_policy:agg_logical_and"),
)  # fmt: skip
def script_exists(tx: Transaction, args: list[bytes]) -> Reply:
    """Return for each SHA-1 whether its script is stored.

    > SCRIPT EXISTS 0000000000000000000000000000000000000000
    1) (integer) 0
    """
    return [int(tx.scripts.find(sha) is not None) for sha in args]


@_script("SCRIPT FLUSH [ASYNC|SYNC]", since="2.6.0", complexity="O(scripts)", write=True, tips=_EVERYWHERE, notifies="")
def script_flush(tx: Transaction, args: list[bytes]) -> Reply:
    """Forget all scripts.

    > SCRIPT FLUSH
    OK
    """
    if len(args) > 1 or (args and read_option(args[0]) not in {b"ASYNC", b"SYNC"}):
        message = "ERR SCRIPT FLUSH only support SYNC|ASYNC option"
        raise CommandError(message)
    tx.scripts.flush(tx.batch)
    tx.runner.forget_reads()
    return OK


@_script("SCRIPT SHOW sha1", since="8.0.0", complexity="O(1)")
def script_show(tx: Transaction, args: list[bytes]) -> Reply:
    """Return the source of a script.

    > SCRIPT LOAD "return 1"
    "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"
    > SCRIPT SHOW e0e1f9fabfc9d4800c877a703b823ac0578ff8db
    "return 1"
    """
    source = tx.scripts.find(args[0])
    if source is None:
        raise CommandError(NO_SCRIPT)
    return source
