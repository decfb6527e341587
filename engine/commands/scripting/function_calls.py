"""FCALL and FCALL_RO: functions of the libraries that FUNCTION LOAD has brought.

A call is one event, as a script is. Source: https://valkey.io/commands/fcall/, …/fcall_ro/.
"""

from __future__ import annotations

from typing import Final

from engine.batch.runner import Call
from engine.batch.transaction import Transaction
from engine.commands.scripting.evaluation import check_flags, key_count, needs_memory, reading_script, writing_script
from engine.commands.scripting.library_code import parse
from engine.commands.scripting.shebang import ALLOW_CROSS_SLOT_KEYS, NO_WRITES, flags_of
from engine.errors import CommandError
from engine.values.replies import Reply

_NOT_FOUND: Final = "ERR Function not found"
_NO_NUMBER: Final = "ERR Bad number of keys provided"


def _reads(tx: Transaction, args: list[bytes]) -> bool:
    """Whether a function says that it does not write."""
    found = tx.libraries.find(args[0])
    return found is not None and NO_WRITES in flags_of(found.function.flags)


def _needs_memory(tx: Transaction, args: list[bytes]) -> bool:
    """Whether a function has no flag that lets it go without; what is unknown may have its error."""
    found = tx.libraries.find(args[0])
    return found is not None and needs_memory(flags_of(found.function.flags))


@writing_script(
    "FCALL function numkeys [key [key ...]] [arg [arg ...]]",
    group="scripting",
    since="7.0.0",
    large_reply=True,
    only_reads=_reads,
    needs_memory=_needs_memory,
)
def fcall(tx: Transaction, args: list[bytes]) -> Reply:
    r"""Run a function as one event.

    > FUNCTION LOAD "#!lua name=mylib\nredis.register_function('double', function(keys, args) return 2 * args[1] end)"
    "mylib"
    > FCALL double 0 21
    (integer) 42
    > FCALL treble 0 21
    (error) ERR Function not found
    """
    return _call(tx, args, reads_only=False)


@reading_script("FCALL_RO function numkeys [key [key ...]] [arg [arg ...]]", group="scripting", since="7.0.0")
def fcall_ro(tx: Transaction, args: list[bytes]) -> Reply:
    r"""Run a function that only reads, without an event.

    > FUNCTION LOAD "#!lua name=a\nredis.register_function{function_name=1,flags={'no-writes'},callback=function() end}"
    "a"
    > FCALL_RO 1 0
    (nil)
    """
    return _call(tx, args, reads_only=True)


def _call(tx: Transaction, args: list[bytes], *, reads_only: bool) -> Reply:
    found = tx.libraries.find(args[0])
    if found is None:
        raise CommandError(_NOT_FOUND)
    library, function = found
    count, words = key_count(args, _NO_NUMBER), args[2:]
    flags = flags_of(function.flags)
    check_flags(tx, flags, reads_only=reads_only)
    call = Call(
        library.sha,
        parse(library.code).body,
        words[:count],
        words[count:],
        NO_WRITES in flags,
        ALLOW_CROSS_SLOT_KEYS not in flags,
        function.name,
    )
    return tx.runner.run(call)
