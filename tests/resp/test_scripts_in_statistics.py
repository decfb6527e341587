"""Counts of the commands that scripts call, in INFO: as the oracle has them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

import pytest
import redis

from tests.real.oracle import Oracle
from tests.resp.processes import serving
from tests.wire.servers import RespServer

FAILS: Final = "redis.pcall('LPUSH', 'x', 1)"
SCRIPTS: Final = (
    "redis.call('GET', 'x') redis.call('GET', 'none') return redis.call('INCR', 'x')",
    "redis.call('PING') redis.call('PUBLISH', 'a', 'b') redis.call('SELECT', 1) redis.call('TIME') return 1",
    "return redis.pcall('OBJECT', 'NOSUCH')",
    "return redis.pcall('NOSUCH')",
    "return redis.pcall('GET')",
    "return redis.call('GET')",
    "return redis.pcall('ECHO', 1, 2)",
    "return redis.pcall('SUBSCRIBE', 'x')",
    "return redis.pcall(1, {})",
    f"return {FAILS}",
    f"{FAILS} return 1",
    f"{FAILS} error('x')",
    "return redis.call('LPUSH', 'x', 1)",
    f"error({FAILS})",
    "return redis.error_reply('MY x')",
    "return redis.call('SELECT', 99)",
    f"local error = {FAILS} return {{err = error.err}}",
    "for _ = 1, 300 do redis.call('SET', 'y', 1) redis.pcall('LPUSH', 'y', 1) end",
)
READS: Final = (
    "return redis.call('GET', 'x')",
    "return redis.pcall('SET', 'x', 'y')",
    "return redis.call('SET', 'x', 'y')",
    "return redis.call('OBJECT', 'ENCODING', 'x')",
    "redis.pcall('LLEN', 'x') return redis.pcall('PUBLISH', 'a', 'b')",
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RespServer]:
    """A standalone slotlog."""
    with serving(tmp_path_factory.mktemp("scripts")) as running:
        yield running


def counted(client: Any, *commands: tuple[str, ...]) -> tuple[dict[str, Any], dict[str, Any], int]:
    """What the commands count: calls, refusals and failures by command; errors by code; all errors."""
    client.flushall()
    client.set("x", 1)
    client.config_resetstat()
    for command in commands:
        with suppress(redis.ResponseError):
            client.execute_command(*command)
    by_command = {
        name: (found["calls"], found["rejected_calls"], found["failed_calls"])
        for name, found in client.info("commandstats").items()
        if name not in {"cmdstat_config|resetstat", "cmdstat_info"}
    }
    return by_command, client.info("errorstats"), client.info("stats")["total_error_replies"]


def both(server: RespServer, oracle_server: Oracle) -> tuple[Any, Any]:
    """A client of each."""
    client: Any = redis.Redis
    return client(unix_socket_path=oracle_server.path), client(port=server.address[1])


@pytest.mark.parametrize(
    "command",
    [*(("EVAL", script, "0") for script in SCRIPTS), *(("EVAL_RO", script, "0") for script in READS)],
    ids=lambda command: f"{command[0]} {command[1][:60]}",
)
def test_the_commands_of_a_script_count(server: RespServer, oracle_server: Oracle, command: tuple[str, ...]) -> None:
    """Each call, failure and refusal counts as the oracle counts it, and each error once."""
    theirs, ours = both(server, oracle_server)
    assert counted(theirs, command) == counted(ours, command)


def test_functions_and_transactions_count_the_commands_of_their_scripts(
    server: RespServer, oracle_server: Oracle
) -> None:
    """FCALL, FCALL_RO, and EVAL and EVAL_RO in an EXEC that writes and in one that only reads."""
    library = (
        "#!lua name=counted\n"
        "redis.register_function('writes', function() return redis.call('INCR', 'x') end)\n"
        "redis.register_function{function_name='reads', callback=function() return redis.call('GET', 'x') end, "
        "flags={'no-writes'}}"
    )
    writes, reads = ("EVAL", "return redis.call('INCR', 'x')", "0"), ("EVAL_RO", READS[0], "0")
    sessions: tuple[tuple[tuple[str, ...], ...], ...] = (
        (("FCALL", "writes", "0"), ("FCALL", "reads", "0"), ("FCALL_RO", "reads", "0")),
        (("MULTI",), writes, reads, ("EXEC",)),
        (("MULTI",), reads, reads, ("EXEC",)),
    )
    found = []
    for client in both(server, oracle_server):
        client.function_load(library, replace=True)
        with client.client() as one:
            found.append([counted(one, *commands) for commands in sessions])
    assert found[0] == found[1]


def slow(client: Any, *commands: tuple[str, ...]) -> list[bytes]:
    """What SLOWLOG has, oldest first, when every command is slow."""
    client.flushall()
    client.set("x", 1)
    client.config_set("slowlog-log-slower-than", 0)
    client.slowlog_reset()
    for command in commands:
        with suppress(redis.ResponseError):
            client.execute_command(*command)
    found = client.slowlog_get(200)
    client.config_set("slowlog-log-slower-than", 10_000)
    return [entry["command"] for entry in reversed(found)]


@pytest.mark.parametrize(
    "command",
    [*(("EVAL", script, "0") for script in SCRIPTS), *(("EVAL_RO", script, "0") for script in READS)],
    ids=lambda command: f"{command[0]} {command[1][:60]}",
)
def test_slowlog_has_the_commands_of_a_script(
    server: RespServer, oracle_server: Oracle, command: tuple[str, ...]
) -> None:
    """What has run inside the script, with an error or without, in front of the script itself, as on the oracle."""
    theirs, ours = both(server, oracle_server)
    assert slow(theirs, command) == slow(ours, command)


def test_slowlog_has_what_an_exec_and_a_function_call(server: RespServer, oracle_server: Oracle) -> None:
    """FCALL, and scripts in an EXEC that writes and in one that only reads, are as on the oracle."""
    library = "#!lua name=slow\nredis.register_function('f', function(keys) return redis.call('INCR', keys[1]) end)"
    writes, reads = ("EVAL", "return redis.call('INCR', 'x')", "0"), ("EVAL_RO", READS[0], "0")
    found = []
    for client in both(server, oracle_server):
        client.function_load(library, replace=True)
        with client.client() as one:
            commands = (("FCALL", "f", "1", "x"), ("MULTI",), writes, ("EXEC",), ("MULTI",), reads, ("EXEC",))
            found.append(slow(one, *commands))
    assert found[0] == found[1]


def test_slowlog_shows_redis_sender_for_commands_of_scripts(server: RespServer, oracle_server: Oracle) -> None:
    """Their client is `?:0` without a name, as in Redis: whose script it is stands beside the script."""
    _, ours = both(server, oracle_server)
    slow(ours, ("EVAL_RO", READS[0], "0"))
    (shown,) = (entry for entry in ours.slowlog_get(10) if entry["command"] == b"GET x")
    assert (b"?:0", b"") == (shown["client_address"], shown["client_name"])


DENIED: Final = (
    (("EVAL", "redis.pcall('GET', 'b') redis.pcall('GET', 'b') return redis.pcall('MGET', 'a', 'bb')", "0"),),
    (("EVAL", "redis.pcall('SET', 'a', 1) redis.pcall('PUBLISH', 'x', 1) return redis.call('PUBLISH', 'c', 1)", "0"),),
    (("EVAL", "redis.pcall('SELECT', 3) redis.pcall('flushall') return redis.call('GET', 'b')", "0"),),
    (("EVAL_RO", "redis.pcall('LLEN', 'b') return redis.call('GET', 'b')", "0"),),
    (("FCALL", "reads", "0"), ("FCALL_RO", "reads", "0")),
    (("MULTI",), ("EVAL", "return redis.pcall('GET', 'b')", "0"), ("EVAL_RO", "return 1", "0"), ("EXEC",)),
    (("MULTI",), ("EVAL_RO", "return redis.pcall('GET', 'b')", "0"), ("EXEC",)),
    (("INCR", "a"), ("EVAL_RO", "return redis.pcall('GET', 'b')", "0")),
)


def denied(client: Any, *commands: tuple[str, ...]) -> Any:
    """What ACL LOG and INFO show when Ann has sent these commands at once."""
    client.flushall()
    client.acl_setuser("ann", enabled=True, nopass=True, reset=True, commands=["+@all", "-set"], keys=["a*"])
    client.execute_command("ACL", "SETUSER", "ann", "&c*", "db=0,1")
    client.acl_log_reset()
    with client.client() as ann:
        ann.execute_command("AUTH", "ann", "x")
        client.config_resetstat()
        before = refusals(client)
        connection = ann.connection
        connection.send_packed_command(connection.pack_commands(commands))
        for _ in commands:
            with suppress(redis.ResponseError):
                connection.read_response()
        entries = [
            (
                *(entry[name] for name in ("count", "reason", "context", "object", "username")),
                entry["client-info"]["user"],
            )
            for entry in client.acl_log()
        ]
    counts = {name: count - before[name] for name, count in refusals(client).items()}
    errors = client.info("errorstats")
    client.acl_deluser("ann")  # the oracle is that of the session
    return entries, counts, errors


def refusals(client: Any) -> dict[str, int]:
    """What INFO counts of them, by kind."""
    stats = client.info("stats")
    return {name: stats[f"acl_access_denied_{name}"] for name in ("cmd", "key", "channel", "db")}


@pytest.mark.parametrize("commands", DENIED, ids=lambda commands: " ".join(map(" ".join, commands))[:70])
def test_acl_log_has_what_scripts_were_refused(
    server: RespServer, oracle_server: Oracle, commands: tuple[tuple[str, ...], ...]
) -> None:
    """Whether the script handles the error or not: command, key, channel or database, and who has sent the script."""
    theirs, ours = both(server, oracle_server)
    library = (
        "#!lua name=denied\nredis.register_function{function_name='reads', "
        "callback=function() return redis.call('GET', 'b') end, flags={'no-writes'}}"
    )
    for client in (theirs, ours):
        client.function_flush()
        client.function_load(library)
    expected = denied(theirs, *commands)
    assert expected[0]
    assert expected == denied(ours, *commands)
