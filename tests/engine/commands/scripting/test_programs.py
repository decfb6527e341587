"""Random Lua programs that run commands reply and write what they do in the real server."""

from __future__ import annotations

from random import Random
from typing import Final

import pytest

from engine.errors import CommandError
from tests.engine.commands.scripting.harness import outcome
from tests.engine.harness import new_store, open_machine
from tests.engine.scripts.calling import CONTENTS, CallingProgram
from tests.engine.scripts.libraries.comparison import drawn, script_of, without_addresses
from tests.real.oracle import Connection

_ERRORS: Final = (
    "'ab\\0cd'",
    "'a b\\0cd'",
    "'-ab\\0c d'",
    "'\\0c d'",
    "'-'",
    "''",
    "'CODE text\\r\\n'",
    "'\\r\\na b\\n'",
    "'x\\n'",
    "'\\nx'",
    "'CODE \\n\\rtext\\n'",
    "' text'",
    "'CODE \\n'",
    "'text'",
)


def _program(random: Random) -> str:
    return CallingProgram(random).text()


@pytest.mark.exact
def test_any_program_with_commands_writes_what_it_writes_in_redis(redis: Connection) -> None:
    """Replies, errors and types of commands within scripts are those of redis-server, and so is what they wrote."""
    machine = open_machine(new_store())
    for program in drawn(_program, 150):
        source = script_of([program, CONTENTS], ordered=True)
        ours = outcome(machine, b"EVAL", source, b"0")
        if isinstance(ours, CommandError) and "rolled back" in ours.message:
            continue  # there it would run as long as it wants
        theirs = redis.call("EVAL", source, 0)
        assert (program, [*map(without_addresses, theirs)]) == (program, [*map(without_addresses, ours)])


def test_an_error_reply_ends_at_a_zero_byte_or_without_its_newline(redis: Connection) -> None:
    """`redis.error_reply` reads text as C does, trims newlines of the message, and puts ERR before a single word."""
    source = f"return {{{', '.join(f'redis.error_reply({text}).err' for text in _ERRORS)}}}".encode()
    assert redis.call("EVAL", source, 0) == outcome(open_machine(new_store()), b"EVAL", source, b"0")
