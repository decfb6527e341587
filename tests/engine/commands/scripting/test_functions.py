"""Libraries and their functions: replies are those of redis-server, and nothing is left from one call to the next."""

from __future__ import annotations

import re
from collections.abc import Iterable
from random import Random
from typing import Any

import pytest

from engine.apply.machine import Machine
from engine.commands.registry import find_words
from engine.commands.scripting import functions
from engine.errors import CommandError
from engine.scripts import runtime as runtimes
from engine.tables import libraries
from engine.values.rdb.functions import dump
from engine.values.replies import OK, Map, Reply, Status
from tests.engine.commands.scripting.function_steps import (
    MANAGING,
    ONE,
    Words,
    calls,
    function,
    library,
    loads,
    program,
    sequence,
)
from tests.engine.commands.scripting.harness import outcome, record
from tests.engine.harness import new_store, open_machine, shape
from tests.engine.scripts.libraries.comparison import RANDOM_PIECES, without_addresses
from tests.layouts import home_of
from tests.real.oracle import Connection, ErrorReply, SimpleString

COUNTER = library("counts", "local n = 0 redis.register_function('next', function() n = n + 1 return n end)")
"""In Redis its function counts its calls, until the server is started anew."""


def counted(machine: Machine) -> tuple[int, int]:
    """How many libraries there are, and how many functions in all of them."""
    libraries = machine.kept[1]
    return len(libraries.by_name), libraries.function_count


def shown(reply: Reply) -> Any:
    """A reply in the form in which a connection of RESP2 shows it."""
    match reply:
        case Status():
            return SimpleString(bytes(reply))
        case CommandError():
            return ErrorReply(reply.message.encode(errors="surrogateescape"))
        case Map():
            return [shown(part) for pair in reply for part in pair]
        case list():
            return [shown(element) for element in reply]
        case _:
            return reply


def ordered(reply: Any) -> Any:
    """A reply without what Redis leaves open: the order of libraries, and which of several is there already."""
    if isinstance(reply, ErrorReply):
        return re.sub(rb" \w+ already exists$", b" already exists", reply.text)
    if isinstance(reply, list) and reply and isinstance(reply[0], list) and reply[0][:1] == [b"library_name"]:
        return sorted([*entry[:5], sorted(entry[5], key=repr), *entry[6:]] for entry in reply)
    if isinstance(reply, list):
        return [*map(ordered, reply)]
    return without_addresses(reply) if isinstance(reply, bytes) else reply


def differences(steps: Iterable[Words], redis: Connection) -> list[tuple[Words, Any, Any]]:
    """The steps that reply otherwise there, with both replies."""
    machine = open_machine(new_store())
    found = []
    for words in steps:
        spec, args = find_words(words)
        theirs, ours = ordered(redis.call(*words)), ordered(shown(outcome(machine, spec.name, *args)))
        if theirs != ours:
            found.append((words, theirs, ours))
    return found


def call(machine: Machine, *words: str | bytes) -> Reply:
    """The reply of a command as the next event, its name as a client writes it."""
    spec, args = find_words([word.encode() if isinstance(word, str) else word for word in words])
    return outcome(machine, spec.name, *args)


def test_libraries_are_loaded_as_in_redis(redis: Connection) -> None:
    """First lines, arguments of `redis.register_function` and errors while code is loaded: replies and lists."""
    assert [] == differences(loads(), redis)


def test_functions_run_as_in_redis(redis: Connection) -> None:
    """What a function sees and may do, its error texts, and the flag of a reader."""
    assert [] == differences(calls(), redis)


def test_libraries_come_and_go_as_in_redis(redis: Connection) -> None:
    """LOAD, DELETE, FLUSH, LIST and RESTORE with their options, and calls of what is there and what is not."""
    assert [] == differences(MANAGING, redis)


def test_any_sequence_is_as_in_redis(redis: Connection) -> None:
    """Random libraries that collide, and calls of their functions."""
    random = Random() if RANDOM_PIECES else Random(0)
    for _ in range(RANDOM_PIECES // 40 or 15):
        steps = sequence(random)
        redis.call("FUNCTION", "FLUSH")
        redis.call("FLUSHALL")
        assert [] == differences(steps, redis)


def test_random_programs_do_as_functions_what_they_do_in_redis(redis: Connection) -> None:
    """They reply and write the same. Scripts are compared in greater numbers: the same programs, as Lua is the same."""
    random = Random(0)
    assert [] == differences((words for _ in range(60) for words in program(random)), redis)


def test_servers_restore_what_ours_dumps(oracle: Connection, redis: Connection) -> None:
    """The payload of FUNCTION DUMP gives the same libraries in Redis and Valkey."""
    machine = open_machine(new_store())
    other = library("b", function("g", "return 2", "'no-writes'"), "--" + "x" * 300)
    for code in (ONE, other):
        call(machine, "FUNCTION", "LOAD", code)
    payload = machine.read(b"FUNCTION|DUMP", [])
    expected = shown(machine.read(b"FUNCTION|LIST", [b"WITHCODE"]))
    for server in (redis, oracle):
        assert SimpleString(b"OK") == server.call("FUNCTION", "RESTORE", payload)
        assert ordered(expected) == ordered(server.call("FUNCTION", "LIST", "WITHCODE"))
        assert 1 == server.call("FCALL", "f", 0)


def test_ours_restores_what_servers_dump(oracle: Connection, redis: Connection) -> None:
    """Payloads of Redis and Valkey, whose strings are compressed, give the same libraries here."""
    for server in (redis, oracle):
        machine = open_machine(new_store())
        for code in (ONE, library("b", *(function(f"g{n}", f"return {n}") for n in range(20)))):
            server.call("FUNCTION", "LOAD", code)
        assert shape(OK) == shape(call(machine, "FUNCTION", "RESTORE", server.call("FUNCTION", "DUMP")))
        assert ordered(server.call("FUNCTION", "LIST", "WITHCODE")) == ordered(
            shown(machine.read(b"FUNCTION|LIST", [b"WITHCODE"]))
        )
        assert 19 == call(machine, "FCALL", "g19", "0")


def test_a_call_leaves_nothing_for_the_next() -> None:
    """The library is loaded anew for each call: what one has changed of its locals, another does not see."""
    machine = open_machine(new_store())
    call(machine, "FUNCTION", "LOAD", COUNTER)
    assert [1, 1] == [call(machine, "FCALL", "next", "0") for _ in range(2)]


def test_a_library_that_failed_leaves_nothing() -> None:
    """Code that ends in an error registers nothing, for itself or for the next library."""
    machine = open_machine(new_store())
    call(machine, "FUNCTION", "LOAD", library("a", "redis.register_function('f', function() end) local x = y"))
    call(machine, "FUNCTION", "LOAD", library("b", "redis.register_function('g', function() end)"))
    assert (1, 1) == counted(machine)
    assert ("CommandError", "ERR Function not found") == shape(call(machine, "FCALL", "f", "0"))


def test_functions_are_there_when_the_state_is_opened_again() -> None:
    """A machine over the same store has the libraries, and its calls reply the same."""
    store = new_store()
    call(open_machine(store), "FUNCTION", "LOAD", ONE)
    machine = open_machine(store)
    assert ((1, 1), 1) == (counted(machine), call(machine, "FCALL", "F", "0"))


def test_a_rollback_forgets_what_its_batch_has_brought_and_removed() -> None:
    """What was not committed did not happen: one library is no more there, and the other one still is."""
    machine = open_machine(new_store())
    call(machine, "FUNCTION", "LOAD", ONE)
    at = machine.next_offset
    other = library("b", "redis.register_function('g', function() end)")
    machine.apply([record(at, b"FUNCTION|FLUSH"), record(at + 1, b"FUNCTION|LOAD", other)], at)
    machine.rollback()
    assert [b"a"] == [entry[0][1] for entry in machine.read(b"FUNCTION|LIST", [])]
    assert 1 == call(machine, "FCALL", "f", "0")


def test_a_function_that_reads_runs_without_an_event() -> None:
    """FCALL_RO is a read of functions with the flag `no-writes`."""
    machine = open_machine(new_store())
    call(machine, "FUNCTION", "LOAD", library("a", function("get", "return redis.call('GET', keys[1])", "'no-writes'")))
    call(machine, "SET", "k", "v")
    assert b"v" == machine.read(b"FCALL_RO", [b"get", b"1", b"k"])


def test_two_functions_of_one_name_in_another_case_are_refused() -> None:
    """FCALL finds a name in any case. Redis takes such a library, and ends when it goes."""
    machine = open_machine(new_store())
    both = library("a", "redis.register_function('f', function() end) redis.register_function('F', function() end)")
    text = "ERR Error registering functions: ERR Function already exists in the library"
    assert ("CommandError", text) == shape(call(machine, "FUNCTION", "LOAD", both))


def test_flags_of_a_cluster_hold() -> None:
    """`no-cluster` refuses a function there, and only `allow-cross-slot-keys` lets its commands name several slots."""
    machine = open_machine(new_store(), home_of("topic", 0, 2))
    body = "redis.call('GET', 'b') return redis.call('GET', 'f')"
    flags = ("'no-cluster'", "", "'allow-cross-slot-keys'")
    functions = (function(f"f{number}", body, flag) for number, flag in enumerate(flags))
    call(machine, "FUNCTION", "LOAD", library("a", *functions))
    assert [
        ("CommandError", "ERR Can not run script on cluster, 'no-cluster' flag is set."),
        (
            "CommandError",
            "ERR Script attempted to access keys that do not hash to the same slot script: f1, on @user_function:2.",
        ),
        ("NoneType", "None"),
    ] == [shape(call(machine, "FCALL", f"f{number}", "0")) for number in range(3)]


def test_rights_hold_in_a_function() -> None:
    """RUNAS carries a call as it carries a script."""
    machine = open_machine(new_store())
    call(machine, "FUNCTION", "LOAD", library("a", function("get", "return redis.call('GET', 'b')")))
    reply = outcome(machine, b"RUNAS", b"ann", b"-flushall ~a*", b"FCALL", b"get", b"0")
    text = "ERR ACL failure in script: No permissions to access a key script: get, on @user_function:2."
    assert ("CommandError", text) == shape(reply)


def test_code_that_runs_too_long_is_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """The instructions that code may use while it is loaded are counted, and nothing of it is kept."""
    monkeypatch.setattr(runtimes, "LOAD_INSTRUCTIONS_MAX", 10_000)
    machine = open_machine(new_store())
    text = "ERR Error registering functions: ERR FUNCTION LOAD ran more than 1,000,000 instructions"
    assert ("CommandError", text) == shape(call(machine, "FUNCTION", "LOAD", library("a", "while true do end")))
    assert (0, 0) == counted(machine)


def test_code_that_takes_too_much_memory_is_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fresh runtime decides, and the next library is loaded."""
    monkeypatch.setattr(runtimes, "MEMORY_BYTES_MAX", 16 << 20)
    monkeypatch.setattr(runtimes, "SHARED_MEMORY_BYTES", 8 << 20)
    machine = open_machine(new_store())
    greedy = library("a", "local s = ('x'):rep(1000) while true do s = s .. s end")
    text = "ERR Error registering functions: ERR FUNCTION LOAD allocated more than 128 MiB"
    assert ("CommandError", text) == shape(call(machine, "FUNCTION", "LOAD", greedy))
    assert b"a" == call(machine, "FUNCTION", "LOAD", ONE)


@pytest.mark.parametrize(
    "body",
    [
        "local function f() return f() + 1 end f()",
        "('x'):rep(1e9)",
        "local t = {} while true do t[#t + 1] = {} end",
        "('a'):rep(40):find(('a?'):rep(40) .. ('a'):rep(40))",
        "('a'):gsub('.', function() while true do end end)",
        "('').dump(function() end)",
        "local s = '' s.format = nil",
        "redis.register_function = nil",
        "redis.register_function('f', redis.register_function) redis.register_function('g', nil)",
        "redis.register_function{function_name='f', callback=function() end, flags={'x', redis}}",
    ],
)
def test_hostile_code_is_no_library(body: str) -> None:
    """It ends with an error, registers nothing, and the next library and its call are as ever."""
    machine = open_machine(new_store())
    reply = call(machine, "FUNCTION", "LOAD", library("hostile", body))
    assert isinstance(reply, CommandError)
    assert reply.message.startswith("ERR Error registering functions: ERR ")
    assert (0, 0) == counted(machine)
    assert (b"a", 1) == (call(machine, "FUNCTION", "LOAD", ONE), call(machine, "FCALL", "f", "0"))


def test_the_error_of_a_name_that_is_an_address_is_the_same_each_time() -> None:
    """What is wrong besides such a key is not told, whichever Lua would come to first."""
    machine = open_machine(new_store())
    text = "ERR Error registering functions: ERR named argument key given to redis.register_function is not a string"
    for number in range(40):
        before = f"local t = {{}} for n = 1, {number} do t[n] = {{}} end"  # so that addresses differ
        code = library("a", f"{before} redis.register_function{{flags=1, [{{}}]=1}}")
        assert ("CommandError", text) == shape(call(machine, "FUNCTION", "LOAD", code))


def test_what_needs_more_than_a_shared_runtime_has_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Code that meets the limit of a runtime which others have used is tried once more in one of its own."""
    monkeypatch.setattr(runtimes, "SHARED_MEMORY_BYTES", 5 << 20)
    twice = "local s = ('x'):rep(100000) s = s .. s s = s .. s s = s .. s s = s .. s s = s .. s"
    code = library("a", f"{twice} redis.register_function('f', function() return #s end)")
    machine = open_machine(new_store())
    assert b"a" == call(machine, "FUNCTION", "LOAD", code)
    assert 3_200_000 == call(machine, "FCALL", "f", "0")


def test_there_is_a_bound_for_functions_and_for_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    """What would be too many or too large is refused whole; a library may take the place of another."""
    monkeypatch.setattr(libraries, "FUNCTIONS_MAX", 2)
    monkeypatch.setattr(functions, "FUNCTIONS_MAX", 2)
    monkeypatch.setattr(libraries, "LIBRARIES_BYTES_MAX", 1000)
    machine = open_machine(new_store())
    two, three, large = (
        library("a", *(function(f"f{number}", "return 1") for number in range(count))) for count in (2, 3, 2)
    )
    large += b"--" + b"x" * 1000
    refused = ("CommandError", "ERR there would be more than 10,000 functions, or 64 MiB of libraries")
    assert b"a" == call(machine, "FUNCTION", "LOAD", two)
    for words in (
        ("FUNCTION", "LOAD", "REPLACE", three),
        ("FUNCTION", "LOAD", "REPLACE", large),
        ("FUNCTION", "LOAD", ONE.replace(b"name=a", b"name=b")),
        ("FUNCTION", "RESTORE", dump([three]), "FLUSH"),
    ):
        assert refused == shape(call(machine, *words))
    assert b"a" == call(machine, "FUNCTION", "LOAD", "REPLACE", two)
    assert (1, 2) == counted(machine)


def test_a_payload_may_decompress_to_a_bound(monkeypatch: pytest.MonkeyPatch, oracle: Connection) -> None:
    """A payload that promises more is refused before it is decompressed."""
    monkeypatch.setattr("engine.values.rdb.reader.RESTORED_BYTES_MAX", 1000)
    oracle.call("FUNCTION", "LOAD", ONE + b"--" + b"x" * 1000)
    machine = open_machine(new_store())
    reply = call(machine, "FUNCTION", "RESTORE", oracle.call("FUNCTION", "DUMP"))
    assert ("CommandError", "ERR the payload decompresses to more than 64 MiB") == shape(reply)
