"""`maxmemory`: what is refused while the process holds more than it may."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from engine.tables.scripts import digest_of
from tests.real.oracle import ErrorReply, Oracle, SimpleString
from tests.resp.harness import Live, pipeline, serving, until
from tests.wire.client import Client

OK: Final = SimpleString(b"OK")
QUEUED: Final = SimpleString(b"QUEUED")
FULL: Final = ErrorReply(b"OOM command not allowed when used memory > 'maxmemory'.")
ABORTED: Final = ErrorReply(b"EXECABORT Transaction discarded because of previous errors.")

_ONCE: Final = (
    ("SET", "a", "2"),
    ("EVAL", "return redis.call('SET', KEYS[1], 2)", "1", "a"),
    ("DEL", "a"),
)


async def limited(live: Live, limit: str = "1") -> Client:
    """A client, after it has set the limit."""
    client = await live.client()
    await client.call("CONFIG", "SET", "maxmemory", limit)
    return client


async def test_what_needs_memory_is_refused(tmp_path: Path) -> None:
    """As in Redis: writes that may grow something are; reads and what frees memory are not; no event is written."""
    async with serving(tmp_path) as live:
        await live.ask("SET", "a", "1")
        client = await limited(live)
        got = await pipeline(
            client, "SET a 2", "LPUSH l x", "BLMOVE l m LEFT LEFT 1", "GET a", "SETNX b 1", "DEL a", "PING"
        )

        assert [FULL, FULL, FULL, b"1", FULL, 1, SimpleString(b"PONG")] == got
        assert [b"SET", b"DEL"] == [name for name, _ in await live.events()]


async def test_what_runs_once(tmp_path: Path) -> None:
    """SLOTLOG ONCE of what may grow something is refused as that itself, and a script in it may only free memory."""
    async with serving(tmp_path) as live:
        await live.ask("SET", "a", "1")
        client = await limited(live)
        once = [await client.call("SLOTLOG", "ONCE", str(at), *words) for at, words in enumerate(_ONCE)]

        assert [FULL, ErrorReply, 1] == [once[0], type(once[1]), once[2]]
        assert [b"SET", b"RUNAS_OOM", b"DEL"] == [name for name, _ in await live.events()]


async def test_no_write_is_run_in_the_past(tmp_path: Path) -> None:
    """SLOTLOG AT of what may grow something says that the past is only read, as it does when there is memory."""
    async with serving(tmp_path) as live:
        client = await live.client()
        commands = "SLOTLOG AT 0 SET a 1", "SLOTLOG AT 0 EVAL x 0", "SLOTLOG AT 0 GET a"
        before = await pipeline(client, *commands)
        await client.call("CONFIG", "SET", "maxmemory", "1")

        assert before == await pipeline(client, *commands)
        assert ErrorReply(b"ERR SLOTLOG AT takes a command that reads: the past cannot be changed") == before[0]


async def test_transactions(tmp_path: Path) -> None:
    """Nothing is queued meanwhile, which aborts; a queue that was there before and grows something is refused."""
    async with serving(tmp_path) as live:
        queued, reads = await live.client(), await live.client()
        await pipeline(queued, "MULTI", "SET a 1")
        await pipeline(reads, "MULTI", "GET a")
        client = await limited(live)
        alone = await pipeline(client, "MULTI", "GET a", "EXEC")

        assert [OK, FULL, ABORTED] == alone
        assert ErrorReply(b"EXECABORT Transaction discarded because of: " + FULL.text) == await queued.call("EXEC")
        assert [None] == await reads.call("EXEC")


async def test_there_is_room_again(tmp_path: Path) -> None:
    """A higher limit, or none, takes effect with the reply; the one that is above what is held was never one."""
    async with serving(tmp_path) as live:
        client = await limited(live, "100gb")
        got = await pipeline(
            client, "SET a 1", "CONFIG SET maxmemory 1", "SET a 2", "CONFIG SET maxmemory 0", "SET a 3"
        )

    assert [OK, OK, FULL, OK, OK] == got


async def test_memory_is_looked_at_by_time(tmp_path: Path) -> None:
    """What the process holds is compared ten times a second, not by each command."""
    async with serving(tmp_path) as live:
        client = await limited(live)
        live.server.shortage.is_on = False
        await until(lambda: live.server.shortage.is_on)

        assert [FULL, b"1"] == [
            await client.call("SET", "a", "1"),
            dict(line.split(b":", 1) for line in (await client.call("INFO", "memory")).split(b"\r\n") if b":" in line)[
                b"maxmemory"
            ],
        ]


ENDS: Final = [["CONFIG", "SET", "maxmemory", "0"], ["FLUSHALL"], ["FUNCTION", "FLUSH"], ["SCRIPT", "FLUSH"]]
"""What an oracle of many tests is left with."""

NO_FLAGS: Final = "#!lua\nreturn 1"
ALLOWED: Final = "#!lua flags=allow-oom\nreturn redis.call('SET', 'x', '1')"
READS: Final = "#!lua flags=no-writes\nreturn redis.call('GET', 'x')"
LIBRARY: Final = (
    "#!lua name=l\n"
    "redis.register_function('plain', function() return 1 end)\n"
    "redis.register_function{function_name='allowed', callback=function() return 1 end, flags={'allow-oom'}}\n"
    "redis.register_function{function_name='reads', callback=function() return 1 end, flags={'no-writes'}}"
)
SCRIPTS: Final = [
    ["EVAL", NO_FLAGS, "0"],
    ["EVAL", ALLOWED, "0"],
    ["EVAL", READS, "0"],
    ["EVAL", "#!lua\nreturn )", "0"],
    ["EVAL", "#!lua flags=nosuch\nreturn 1", "0"],
    ["EVAL_RO", READS, "0"],
    ["EVALSHA", digest_of(NO_FLAGS.encode()).decode(), "0"],
    ["EVALSHA", digest_of(ALLOWED.encode()).decode(), "0"],
    ["EVALSHA", "0" * 40, "0"],
    ["FCALL", "plain", "0"],
    ["FCALL", "allowed", "0"],
    ["FCALL", "reads", "0"],
    ["FCALL_RO", "reads", "0"],
    ["FCALL", "nosuch", "0"],
    ["SCRIPT", "LOAD", "return 2"],
    ["FUNCTION", "LOAD", "REPLACE", LIBRARY],
]


async def test_scripts_run_as_their_flags_say(tmp_path: Path, oracle_server: Oracle) -> None:
    """Those with `allow-oom` or `no-writes` run, and those without are refused, with the oracle's replies."""
    loads = [["FLUSHALL"], ["FUNCTION", "FLUSH"], ["FUNCTION", "LOAD", LIBRARY], ["SCRIPT", "LOAD", NO_FLAGS]]
    theirs = oracle_server.connect()
    theirs.pipeline([*loads, ["CONFIG", "SET", "maxmemory", "1"]])
    expected = theirs.pipeline([*SCRIPTS, *ENDS])[: -len(ENDS)]
    theirs.close()
    async with serving(tmp_path) as live:
        for load in loads:
            await live.ask(*load)
        client = await limited(live)
        got = [await client.call(*script) for script in SCRIPTS]

    assert {FULL, b"1", 1, OK} < set(expected)
    assert expected == got


WITHOUT_FLAGS: Final = [
    "return 1",
    "return redis.pcall('SET', 'x', '1')",
    "redis.pcall('SET', 'x', '1') return redis.pcall('SET', 'x', '1')",
    "redis.call('GET', 'x') return redis.pcall('SET', 'x', '1')",
    "redis.call('PUBLISH', 'x', 'y') return redis.pcall('SET', 'x', '1')",
    "redis.call('DEL', 'x') return redis.pcall('SET', 'x', '1')",
    "redis.call('DEL', 'x') redis.call('GET', 'x') return redis.pcall('SET', 'x', '1')",
    "redis.pcall('DEL') return redis.pcall('SET', 'x', '1')",
    "redis.pcall('EXPIRE', 'x', 'y') return redis.pcall('SET', 'x', '1')",
]


async def test_a_script_without_flags_runs_up_to_what_needs_memory(tmp_path: Path, oracle_server: Oracle) -> None:
    """A command that needs memory is refused to it, and it goes on; once it has written, none is. As in Redis."""
    scripts = [["EVAL", source, "0"] for source in WITHOUT_FLAGS]
    theirs = oracle_server.connect()
    theirs.pipeline([["FLUSHALL"], ["CONFIG", "SET", "maxmemory", "1"]])
    expected = theirs.pipeline([*scripts, *ENDS])[: -len(ENDS)]
    theirs.close()
    async with serving(tmp_path) as live:
        client = await limited(live)
        got = [await client.call(*script) for script in scripts]
        stops = await client.call("EVAL", "return redis.call('SET', 'x', '1')", "0")

        assert {b"RUNAS_OOM"} == {name for name, _ in await live.events()}
    assert {FULL, 1, OK} == set(expected)
    assert expected == got
    assert stops.text.startswith(FULL.text + b" script: ")


async def test_a_script_that_was_queued_before(tmp_path: Path) -> None:
    """An EXEC runs it, and refuses it what needs memory; one with flags is refused as a whole, with Redis' text."""
    refused = ErrorReply(b"OOM allow-oom flag is not set on the script, can not run it when used memory > 'maxmemory'")
    async with serving(tmp_path) as live:
        await live.ask("FUNCTION", "LOAD", LIBRARY)
        client = await live.client()
        await client.call("MULTI")
        for command in (["EVAL", WITHOUT_FLAGS[1], "0"], ["EVAL", NO_FLAGS, "0"], ["EVAL", ALLOWED, "0"]):
            await client.call(*command)
        for function in ("plain", "allowed"):
            await client.call("FCALL", function, "0")
        await limited(live)

        assert [FULL, refused, OK, refused, 1] == await client.call("EXEC")


async def test_a_user_of_few_rights_without_memory(tmp_path: Path) -> None:
    """The event carries the rights as well: a command that they refuse has their error."""
    async with serving(tmp_path) as live:
        await live.ask("ACL", "SETUSER", "ann", "on", ">p", "+@all", "-del", "~x")
        ann = await limited(live)
        await ann.call("AUTH", "ann", "p")
        got = [await ann.call("EVAL", f"return redis.pcall({call})", "0") for call in ("'DEL', 'x'", "'SET', 'x', '1'")]

    assert got[0].text.startswith(b"ERR ACL failure in script: User ann has no permissions to run the 'del' command")
    assert FULL == got[1]
