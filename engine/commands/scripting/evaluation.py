"""EVAL and EVALSHA, and their forms for scripts that only read.

A script is one event: it runs when it is applied. Source: https://valkey.io/commands/eval/, …/evalsha/.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Final

from engine.batch.runner import Call
from engine.batch.transaction import Transaction
from engine.commands.registry import command
from engine.commands.scripting.shebang import ALLOW_CROSS_SLOT_KEYS, ALLOW_OOM, NO_CLUSTER, NO_WRITES, parse
from engine.errors import NO_SCRIPT, NOT_AN_INTEGER, CommandError
from engine.tables.scripts import digest_of
from engine.values.numbers import parse_int
from engine.values.replies import Reply

CATEGORIES: Final = ("slow", "scripting")
_FLAGS: Final = ("noscript", "stale", "skip_monitor", "no_mandatory_keys", "movablekeys")
_script = partial(command, complexity="depends on the script", categories=CATEGORIES, runs_others=True)
writing_script = partial(_script, write=True, access="RW access update", flags=_FLAGS, notifies="")
"""A command that runs a script as one event."""
reading_script = partial(_script, access="RO access", flags=("readonly", *_FLAGS), by_wall=True)
"""A command that runs a script which only reads, without an event."""
_KEYS_NEGATIVE: Final = "ERR Number of keys can't be negative"
_KEYS_TOO_MANY: Final = "ERR Number of keys can't be greater than number of args"
_CLUSTER_REFUSED: Final = "ERR Can not run script on cluster, 'no-cluster' flag is set."
_NOT_ALLOWED: Final = "OOM allow-oom flag is not set on the script, can not run it when used memory > 'maxmemory'"
_WRITING_REFUSED: Final = "ERR Can not execute a script with write flag using *_ro command."


def _reads_by_sha(tx: Transaction, sha: bytes) -> bool:
    """Whether a stored script says that it does not write."""
    source = tx.scripts.find(sha)
    flags = None if source is None else parse(source).flags
    return flags is not None and NO_WRITES in flags


def _evalsha_reads(tx: Transaction, args: list[bytes]) -> bool:
    return _reads_by_sha(tx, args[0])


def _eval_reads(tx: Transaction, args: list[bytes]) -> bool:
    """Of a script that is not stored yet nothing is known: its event keeps it for EVALSHA."""
    return args[0].startswith(b"#!") and _reads_by_sha(tx, digest_of(args[0]))


def _eval_needs_memory(tx: Transaction, args: list[bytes]) -> bool:
    """Whether a script has flags, and none that lets it go without. One with wrong flags may have its error."""
    with suppress(CommandError):
        flags = parse(args[0]).flags
        return flags is not None and needs_memory(flags)
    return False


def _evalsha_needs_memory(tx: Transaction, args: list[bytes]) -> bool:
    """As `_eval_needs_memory`, and an unknown script may have its error."""
    source = tx.scripts.find(args[0])
    return source is not None and _eval_needs_memory(tx, [source])


def needs_memory(flags: frozenset[bytes]) -> bool:
    """Whether what has these flags may not run while there is no more memory to be used."""
    return flags.isdisjoint((ALLOW_OOM, NO_WRITES))


@writing_script(
    "EVAL script numkeys [key [key ...]] [arg [arg ...]]",
    group="scripting",
    since="2.6.0",
    large_reply=True,
    only_reads=_eval_reads,
    needs_memory=_eval_needs_memory,
)
def eval_(tx: Transaction, args: list[bytes]) -> Reply:
    """Run a Lua script as one event. EVALSHA finds it afterwards.

    > EVAL "return redis.call('SET', KEYS[1], ARGV[1])" 1 greeting hello
    OK
    > GET greeting
    "hello"
    """
    return _evaluate(tx, args, reads_only=False)


@writing_script(
    "EVALSHA sha1 numkeys [key [key ...]] [arg [arg ...]]",
    group="scripting",
    since="2.6.0",
    large_reply=True,
    only_reads=_evalsha_reads,
    needs_memory=_evalsha_needs_memory,
)
def evalsha(tx: Transaction, args: list[bytes]) -> Reply:
    """Run a script that EVAL or SCRIPT LOAD has brought, by the SHA-1 of its source.

    > EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0
    (error) NOSCRIPT No matching script.
    > SCRIPT LOAD "return 1"
    "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"
    > EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0
    (integer) 1
    """
    return _evaluate_stored(tx, args, reads_only=False)


@reading_script("EVAL_RO script numkeys [key [key ...]] [arg [arg ...]]", group="scripting", since="7.0.0")
def eval_ro(tx: Transaction, args: list[bytes]) -> Reply:
    """Run a Lua script that only reads, without an event.

    > SET a "1"
    OK
    > EVAL_RO "return redis.call('GET', KEYS[1])" 1 a
    "1"
    """
    return _evaluate(tx, args, reads_only=True)


@reading_script("EVALSHA_RO sha1 numkeys [key [key ...]] [arg [arg ...]]", group="scripting", since="7.0.0")
def evalsha_ro(tx: Transaction, args: list[bytes]) -> Reply:
    """Run a script that only reads by the SHA-1 of its source, without an event.

    > SCRIPT LOAD "return 1"
    "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"
    > EVALSHA_RO e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0
    (integer) 1
    """
    return _evaluate_stored(tx, args, reads_only=True)


def _evaluate(tx: Transaction, args: list[bytes], *, reads_only: bool) -> Reply:
    source, count = args[0], key_count(args)
    sha = digest_of(source)
    call = _call(tx, sha, source, args[2:], count, reads_only=reads_only)
    if reads_only:
        tx.runner.check(sha, call.body)
        tx.runner.remember(sha, source)
    elif sha not in tx.scripts.by_sha:
        tx.runner.check(sha, call.body)
        tx.scripts.keep(sha, source, tx.batch, loaded=False)
    return tx.runner.run(call)


def _evaluate_stored(tx: Transaction, args: list[bytes], *, reads_only: bool) -> Reply:
    sha, count = args[0].lower(), key_count(args)
    source = tx.scripts.find(sha) or (tx.runner.remembered(sha) if reads_only else None)
    if source is None:
        raise CommandError(NO_SCRIPT)
    return tx.runner.run(_call(tx, sha, source, args[2:], count, reads_only=reads_only))


def key_count(args: list[bytes], no_number: str = NOT_AN_INTEGER) -> int:
    """The second argument: how many of those behind it are keys. `no_number` is the error when it is none."""
    count = parse_int(args[1])
    if count is None:
        raise CommandError(no_number)
    if count > len(args) - 2:
        raise CommandError(_KEYS_TOO_MANY)
    if count < 0:
        raise CommandError(_KEYS_NEGATIVE)
    return count


def _call(tx: Transaction, sha: bytes, source: bytes, words: list[bytes], count: int, *, reads_only: bool) -> Call:
    """One run, as the flags of the script allow it."""
    body, flags = parse(source)
    if flags is not None:
        check_flags(tx, flags, reads_only=reads_only)
        reads_only = NO_WRITES in flags
    one_slot = flags is not None and ALLOW_CROSS_SLOT_KEYS not in flags
    may_grow = flags is not None or not tx.runner.memory_is_full
    return Call(sha, body, words[:count], words[count:], reads_only, one_slot, may_grow=may_grow)


def check_flags(tx: Transaction, flags: frozenset[bytes], *, reads_only: bool) -> None:
    """Refuse a script or function whose flags say that it cannot run here, or by this command."""
    if tx.runner.clustered and NO_CLUSTER in flags:
        raise CommandError(_CLUSTER_REFUSED)
    if reads_only and NO_WRITES not in flags:
        raise CommandError(_WRITING_REFUSED)
    if tx.runner.memory_is_full and needs_memory(flags):
        raise CommandError(_NOT_ALLOWED)
