"""Every command's docstring holds a redis-cli session; here the engine and the oracle are both asked to repeat it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from engine.apply.machine import Machine, Record
from engine.commands.registry import SPECS, Spec, find_words
from engine.errors import CommandError
from engine.layouts.layout import Form
from engine.values.replies import NIL_ARRAY, OK, Map, Pairs, Set, Status
from tests.engine.harness import NOW_MS, new_store, open_machine
from tests.layouts import OF_FIELD_TIMES, OF_STREAMS, differences
from tests.real.oracle import Connection, ErrorReply, NullArray, SimpleString
from tests.transcript import Step, parse, show, split

SESSION = b"session".ljust(16)
ALL = sorted(SPECS.values(), key=lambda spec: spec.name)
OF_REDIS = [spec for spec in ALL if spec.of == "redis" and spec.name != b"FUNCTION|DUMP"]
"""Those that reply the same in any server: the payload of FUNCTION DUMP names the version of its RDB."""


def steps_of(spec: Spec) -> list[Step]:
    """The transcript of a command; none would make every test of it pass, so that is an error."""
    steps = parse(spec.handler.__doc__ or "")
    found = [find_words(step.words)[0] for step in steps]
    assert spec in found, f"the docstring of {spec.name!r} has no transcript of it"
    return steps


def session(steps: list[Step], replies: list[Any]) -> str:
    """The commands with the replies that they got."""
    return "\n".join(f"{step.line}\n{show(reply)}" for step, reply in zip(steps, replies, strict=True))


def written(steps: list[Step]) -> str:
    """The commands with the replies that the docstring shows."""
    return "\n".join(f"{step.line}\n{step.shown}" for step in steps)


def named(spec: Spec) -> str:
    """The test's name for a command."""
    return spec.name.decode()


def outcome_of(machine: Machine, spec: Spec, args: list[bytes]) -> Any:
    """The outcome of a writing command: with a session if it needs one, in an EXEC if it cannot stand alone."""
    offset = machine.next_offset
    record: Record = (offset, NOW_MS, spec.name, args, 0, None, SESSION if spec.sessional else None)
    if not spec.alone:
        record = (offset, NOW_MS, b"EXEC", [[spec.name, *args]], 0, None, None)
    outcome = machine.apply([record], offset, waiting={offset}).outcomes[offset]
    if spec.alone:
        return outcome
    (reply,) = outcome
    return reply


def on_the_layout(spec: Spec) -> Any:
    """The command as a test's parameter."""
    form = Form.FIELD_TIMES if spec.name in OF_FIELD_TIMES else Form.STREAMS if spec.name in OF_STREAMS else None
    marks = [] if form is None else [pytest.mark.form(form)]
    return pytest.param(spec, id=named(spec), marks=marks)


@pytest.mark.parametrize("spec", [on_the_layout(spec) for spec in ALL])
def test_the_engine_repeats_the_transcript(spec: Spec) -> None:
    """On an empty database the engine gives the replies that are shown: writes as events, reads as queries.

    A count that the layout makes differ is the one that it declares.
    """
    steps = steps_of(spec)
    machine = open_machine(new_store())
    replies = []
    for step in steps:
        step_spec, args = find_words(step.words)
        name = step_spec.name
        if step_spec.write:
            replies.append(outcome_of(machine, step_spec, args))
        else:
            replies.append(machine.read(name, args))

    assert "\n".join(f"{step.line}\n{on_this_layout(step)}" for step in steps) == session(steps, replies)


def on_this_layout(step: Step) -> str:
    """The reply that a transcript shows, or the one that the layout has for it."""
    spec, args = find_words(step.words)
    number = step.shown.removeprefix("(integer) ")
    if number == step.shown:
        return step.shown
    return show(differences.replies(spec.name, args, int(number))[-1])


@pytest.mark.parametrize("spec", OF_REDIS, ids=named)
def test_the_oracle_repeats_the_transcript(spec: Spec, oracle: Connection) -> None:
    """On an empty database the oracle gives the same replies: in one transaction, as its clock then stands still."""
    steps = steps_of(spec)
    if not spec.transactional:
        assert written(steps) == session(steps, oracle.pipeline([step.words for step in steps]))
        return

    *queued, replies = oracle.pipeline([("MULTI",), *(step.words for step in steps), ("EXEC",)])

    assert [SimpleString(b"OK"), *([SimpleString(b"QUEUED")] * len(steps))] == queued
    assert written(steps) == session(steps, replies)


@pytest.mark.parametrize(
    ("reply", "shown"),
    [
        (7, "(integer) 7"),
        (None, "(nil)"),
        (NIL_ARRAY, "(nil)"),
        (NullArray(), "(nil)"),
        (OK, "OK"),
        (SimpleString(b"OK"), "OK"),
        (Status(b"hash"), "hash"),
        (1.5, '"1.5"'),
        (b'a"\\\n\x00\xff', r'"a\"\\\n\x00\xff"'),
        (CommandError("ERR no such key"), "(error) ERR no such key"),
        (ErrorReply(b"ERR no such key"), "(error) ERR no such key"),
        ([], "(empty array)"),
        (Set([b"a", b"b"]), '1) "a"\n2) "b"'),
        (Map([(b"f", b"v")]), '1) "f"\n2) "v"'),
        (Pairs([(b"m", 3.0)]), '1) "m"\n2) "3"'),
        ([[b"a", [1, []]], b"b"], '1) 1) "a"\n   2) 1) (integer) 1\n      2) (empty array)\n2) "b"'),
        ([0] * 10, "\n".join(f"{n:2}) (integer) 0" for n in range(1, 11))),
    ],
)
def test_replies_are_shown_as_redis_cli_shows_them(reply: Any, shown: str) -> None:
    """Every kind of reply, escapes, nested arrays, and numbers of one width."""
    assert shown == show(reply)


def test_a_docstring_is_cut_into_steps() -> None:
    """A reply ends at the next command or at an empty line; prose around it is none."""
    docstring = """
    What it does.

    > PING
    PONG
    > LRANGE l 0 -1
    1) "a"
    2) "b"

    More prose.

    > SET k "a b"
    OK
    """
    assert [
        Step("> PING", [b"PING"], "PONG"),
        Step("> LRANGE l 0 -1", [b"LRANGE", b"l", b"0", b"-1"], '1) "a"\n2) "b"'),
        Step('> SET k "a b"', [b"SET", b"k", b"a b"], "OK"),
    ] == parse(docstring)


def test_a_command_line_is_split_into_words() -> None:
    """Quoted words may hold spaces, escapes and nothing at all; bytes beyond ASCII are those of UTF-8."""
    assert [b"SET", b"a b", b"", b'\x00\xff\n"\\', "é".encode()] == split(r'SET "a b"  "" "\x00\xff\n\"\\" é')


@pytest.mark.parametrize("line", ['SET "a', 'SET "a"b', 'SET a"b'])
def test_unbalanced_quotes_are_refused(line: str) -> None:
    """A slip in a docstring is an error, not another command."""
    with pytest.raises(ValueError, match=re.escape(f"unbalanced quotes: {line}")):
        split(line)
