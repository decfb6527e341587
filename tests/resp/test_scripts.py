"""Scripts from clients: what redis-py's own objects do, transactions, users, several partitions, listeners."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from redis.exceptions import LockNotOwnedError, NoPermissionError, NoScriptError, ResponseError
from redis.lock import Lock

from tests.real.oracle import Oracle
from tests.resp.processes import serving
from tests.resp.scripts import OracleClients, normal, play, replay
from tests.wire.servers import RespServer

SET = "return redis.call('SET', KEYS[1], ARGV[1])"
GET = "return redis.call('GET', KEYS[1])"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RespServer]:
    """A standalone slotlog."""
    with serving(tmp_path_factory.mktemp("scripts")) as running:
        yield running


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RespServer]:
    """One worker with two partitions."""
    with serving(tmp_path_factory.mktemp("scripts"), ["--partitions", "2"]) as running:
        yield running


def connected_to(server: RespServer, **options: str) -> Any:
    """A client of redis-py, many of whose methods have no types."""
    client: Any = redis.Redis
    return client(port=server.address[1], **options)


@pytest.fixture
def client(server: RespServer) -> Iterator[Any]:
    """A client of an empty server."""
    with connected_to(server) as connected:
        connected.flushall()
        connected.script_flush()
        yield connected


def test_a_registered_script_is_sent_once(client: Any) -> None:
    """redis-py's Script asks for the SHA-1 first, and brings the source when it is unknown."""
    script = client.register_script(SET)
    assert [b"OK", b"OK"] == [script(keys=[key], args=["v"]) for key in ("a", "b")]
    assert ([True], [b"v", b"v"]) == (client.script_exists(script.sha), client.mget("a", "b"))


def test_a_lock_is_extended_and_released(client: Any) -> None:
    """redis-py's Lock is released by a script that compares its token; another one's is left alone."""
    lock, other = Lock(client, "lock", timeout=60), Lock(client, "lock", timeout=60)
    assert lock.acquire(blocking=False)
    assert not other.acquire(blocking=False)
    assert lock.extend(100)
    assert 100_000 < client.pttl("lock") <= 160_000
    client.set("lock", "stolen")
    with pytest.raises(LockNotOwnedError):
        lock.release()
    client.delete("lock")
    assert lock.acquire(blocking=False)
    lock.release()
    assert not client.exists("lock")


def test_loaded_scripts_run_until_they_are_flushed(client: Any) -> None:
    """SCRIPT LOAD, EXISTS, SHOW and FLUSH."""
    sha = client.script_load("return 7")
    assert (7, b"return 7") == (client.evalsha(sha, 0), client.execute_command("SCRIPT", "SHOW", sha))
    client.script_flush()
    assert [False] == client.script_exists(sha)
    with pytest.raises(NoScriptError):
        client.evalsha(sha, 0)


def test_pipelined_scripts_are_answered_in_order(client: Any) -> None:
    """Scripts, writes and reads of one pipeline have their replies in its order."""
    pipeline = client.pipeline(transaction=False)
    pipeline.set("n", 1).eval("return redis.call('INCR', KEYS[1])", 1, "n")
    pipeline.get("n").eval_ro(GET, 1, "n").eval(GET, 1, "n")
    assert [True, 2, b"2", b"2", b"2"] == pipeline.execute()


def test_a_script_that_meets_a_limit_stops_no_pipeline(client: Any) -> None:
    """It is answered with its error, in its place; nothing of it stays, and what was sent around it is done."""
    too_much = "redis.call('INCR', KEYS[1]) local all = {} for at = 1, 1e8 do all[at] = {} end"
    pipeline = client.pipeline(transaction=False).set("n", 1)
    pipeline.eval(too_much, 1, "n").incr("n").eval(too_much, 1, "n").get("n")
    replies = pipeline.execute(raise_on_error=False)
    assert [True, 2, b"2"] == replies[::2]
    assert ["ERR the script was rolled back: it allocated more than 128 MiB"] * 2 == [
        f"ERR {str(reply).removeprefix('ERR ')}" for reply in replies[1::2]
    ]


def test_scripts_stand_in_transactions(client: Any) -> None:
    """An EXEC with scripts is one event; one with scripts that only read is none."""
    both = client.pipeline().set("a", 1).eval(SET, 1, "a", "2").script_load("return 1").get("a").eval_ro(GET, 1, "a")
    assert [True, b"OK", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", b"2", b"2"] == both.execute()
    assert [b"2", b"2"] == client.pipeline().eval_ro(GET, 1, "a").get("a").execute()


def test_a_reading_script_is_no_event(client: Any) -> None:
    """EVAL_RO and EVALSHA_RO leave the log as it is, whose end ROLE tells."""
    client.set("a", "1")
    before = client.role()
    sha = client.register_script(GET).sha
    assert (b"1", b"1") == (client.eval_ro(GET, 1, "a"), client.evalsha_ro(sha, 1, "a"))
    assert before == client.role()


NO_WRITES = f"#!lua flags=no-writes\n{GET}"


def calls(client: Any, command: str) -> int:
    """How often a command has run."""
    return int(client.info("commandstats").get(f"cmdstat_{command}", {"calls": 0})["calls"])


def test_a_stored_script_that_says_no_writes_is_no_event(client: Any) -> None:
    """EVAL and EVALSHA of it leave the log as it is, and count as themselves."""
    client.set("a", "1")
    client.config_resetstat()
    sha = client.register_script(NO_WRITES).sha
    assert b"1" == client.eval(NO_WRITES, 1, "a")  # an event, which keeps it
    before = client.role()
    assert [b"1", b"1"] == [client.eval(NO_WRITES, 1, "a"), client.evalsha(sha.upper(), 1, "a")]
    assert before == client.role()
    assert (2, 1, 0) == (calls(client, "eval"), calls(client, "evalsha"), calls(client, "eval_ro"))
    assert [b"1", b"1"] == client.pipeline().eval(NO_WRITES, 1, "a").get("a").execute()
    assert before != client.role()


def test_a_script_without_events_is_refused_as_one_with(client: Any) -> None:
    """What it may not do, and wrong numbers of keys, have the texts that they have in its first run."""
    script = "#!lua flags=no-writes\nreturn redis.call(unpack(ARGV))"
    for words in (("1", "a", "SET", "a", "1"), ("0", "NOSUCH"), ("x",), ("-1",), ("5", "a"), ("0",)):
        texts = []
        for _ in range(2):
            with pytest.raises(ResponseError) as refused:
                client.execute_command("EVAL", script, *words)
            texts.append(str(refused.value))
        assert texts[0] == texts[1]


def test_a_flush_ends_the_runs_without_events(client: Any) -> None:
    """A script that was flushed comes back by its event, in whatever way its commands are sent."""
    sha = client.script_load(NO_WRITES)
    client.set("a", "1")
    flushed = client.pipeline(transaction=False).script_flush().eval(NO_WRITES, 1, "a").evalsha(sha, 1, "a")
    assert [True, b"1", b"1"] == flushed.execute()
    assert [True] == client.script_exists(sha)
    client.script_flush()
    with pytest.raises(NoScriptError):
        client.evalsha(sha, 1, "a")
    assert b"1" == client.eval(NO_WRITES, 1, "a")
    assert [True] == client.script_exists(sha)


def test_a_script_serves_a_client_that_waits(server: RespServer, client: Any) -> None:
    """A BLPOP gets what a script pushes."""
    waiting = server.connect()
    waiting.send("BLPOP", "queue", "0")
    while not client.info("clients")["blocked_clients"]:
        """It has not been read yet."""
    client.eval("return redis.call('RPUSH', KEYS[1], 'job')", 1, "queue")
    assert [b"queue", b"job"] == waiting.reply()
    waiting.close()


def test_a_script_publishes_to_listeners(client: Any) -> None:
    """PUBLISH inside of a script reaches subscribers once the event is committed, and replies 0."""
    listener = client.pubsub()
    listener.subscribe("news")
    assert "subscribe" == listener.get_message(timeout=60)["type"]
    assert 0 == client.eval("return redis.call('PUBLISH', 'news', 'hello')", 0)
    assert b"hello" == listener.get_message(timeout=60)["data"]
    listener.close()


MONITORED = """
    a: SELECT 3
    m: MONITOR
    a: EVAL "redis.call('SET', KEYS[1], 'v') redis.call('select', '2') return redis.pcall('get', KEYS[1])" 1 k
    a: EVAL "redis.pcall('nosuch') redis.pcall('GET', 'a', 'b') redis.pcall('LPUSH', 'k', 'x') redis.call('ping')" 0
    a: EVAL_RO "redis.pcall('SET', 'k', 'w') return redis.call('get', KEYS[1])" 1 k
    a: SCRIPT LOAD "return redis.call('echo', 'x')"
    a: EVALSHA c7848912f5b8aa62347b829c6173cfffa5f76531 0
    a: PING
"""


def test_a_monitor_sees_the_commands_of_scripts(server: RespServer, client: Any, oracle_server: Oracle) -> None:
    """Each that has run, behind the script, as `lua` and with the database that it has selected."""
    theirs = OracleClients(oracle_server)
    expected = play(theirs, MONITORED)
    theirs.close()
    got = replay(server.address, expected)
    assert normal(expected) == normal(got)
    shown = b"".join(told["m"] for _, told in got if "m" in told)
    assert [b'3 lua] "SET" "k" "v"', b'2 lua] "select" "2"', b'2 lua] "get" "k"'] == re.findall(
        rb"\d lua\] .*?(?=\r)", shown
    )[:3]


def test_a_script_has_the_rights_of_its_user(server: RespServer, client: Any) -> None:
    """Its commands are held against them, as events, in transactions and as reads; the default user has all."""
    client.execute_command("ACL", "SETUSER", "ann", "on", "nopass", "+@all", "-flushall", "~a*", "&a*")
    with connected_to(server, username="ann", password="x") as ann:
        assert b"OK" == ann.eval(SET, 1, "a", "1")
        with pytest.raises(NoPermissionError, match="No permissions to access a key"):
            ann.eval("return 1", 1, "b")
        refused: tuple[Callable[[], object], ...] = (
            lambda: ann.eval("return redis.call('SET', 'b', '1')", 0),
            lambda: ann.eval_ro("return redis.call('GET', 'b')", 0),
            lambda: ann.evalsha(client.script_load("#!lua flags=no-writes\nreturn redis.call('GET', 'b')"), 0),
            lambda: ann.pipeline().set("a", "2").eval("return redis.call('GET', 'b')", 0).execute(),
            lambda: ann.pipeline().eval_ro("return redis.call('GET', 'b')", 0).get("a").execute(),
        )
        for run in refused:
            with pytest.raises(ResponseError, match="ACL failure in script: No permissions to access a key"):
                run()
        with pytest.raises(ResponseError, match="User ann has no permissions to run the 'flushall' command"):
            ann.eval("return redis.call('FLUSHALL')", 0)
    assert (b"2", None) == (client.eval(GET, 1, "a"), client.eval(GET, 1, "b"))
    client.execute_command("ACL", "DELUSER", "ann")


def test_scripts_in_a_cluster(cluster: RespServer) -> None:
    """SCRIPT LOAD reaches each partition; a script runs where its keys are, and without keys somewhere."""
    with connected_to(cluster) as client:
        sha = client.script_load(SET)
        assert [b"OK", b"OK"] == [client.evalsha(sha, 1, key, key) for key in ("a", "b")]
        assert [b"a", b"b"] == [client.get(key) for key in ("a", "b")]
        assert ([True, False], 1) == (client.script_exists(sha, "0" * 40), client.eval("return 1", 0))
        with pytest.raises(ResponseError, match="Script attempted to access a non local key in a cluster node"):
            client.eval("return redis.call('GET', 'a')", 1, "b")
        with pytest.raises(ResponseError, match="Keys in request don't hash to the same slot"):
            client.eval(GET, 2, "a", "b")
        assert client.script_flush()
        assert [False] == client.script_exists(sha)


def test_a_script_of_one_partition_is_known_to_all(cluster: RespServer) -> None:
    """EVALSHA finds in each partition what EVAL has brought to another one, also before that is applied."""
    double = "return redis.call('INCRBY', KEYS[1], 2)"
    with connected_to(cluster) as client:
        sha = client.script_load(double)
        client.flushall()
        client.script_flush()
        pipe = client.pipeline(transaction=False)
        pipe.eval(double, 1, "a")
        pipe.evalsha(sha.upper(), 1, "b")
        assert [2, 2] == pipe.execute()
        client.script_flush()
        assert 4 == client.eval(double, 1, "a")
        assert [True] == client.script_exists(sha)
        pipe = client.pipeline(transaction=True)
        pipe.get("b")
        pipe.evalsha(sha, 1, "b")
        assert [b"2", 4] == pipe.execute()
        client.script_flush()
        with pytest.raises(NoScriptError):
            client.evalsha(sha, 1, "b")


def test_a_script_of_one_partition_runs_once_in_another(cluster: RespServer) -> None:
    """SLOTLOG ONCE finds by its SHA-1 what EVALSHA does."""
    with connected_to(cluster) as client:
        client.flushall()
        client.script_flush()
        append = "return redis.call('APPEND', KEYS[1], 'x')"
        assert 1 == client.eval(append, 1, "a")
        sha = hashlib.sha1(append.encode(), usedforsecurity=False).hexdigest()
        once = [client.execute_command("SLOTLOG", "ONCE", "known", "EVALSHA", sha, "1", "b") for _ in range(2)]
        assert ([1, 1], b"x") == (once, client.get("b"))


def test_a_script_that_reads_is_known_to_all_partitions(cluster: RespServer) -> None:
    """EVALSHA_RO finds what EVAL and EVAL_RO have brought to another partition, EVALSHA only what EVAL has."""
    with connected_to(cluster) as client:
        client.flushall()
        sha = client.script_load(GET)
        client.script_flush()
        assert [True, True] == [client.set(key, value) for key, value in (("a", "1"), ("b", "2"))]
        assert b"1" == client.execute_command("EVAL_RO", GET, "1", "a", keys=["a"])
        assert b"2" == client.execute_command("EVALSHA_RO", sha, "1", "b", keys=["b"])
        with pytest.raises(NoScriptError):
            client.evalsha(sha, 1, "b")
        client.script_flush()
        with pytest.raises(NoScriptError):
            client.execute_command("EVALSHA_RO", sha, "1", "b", keys=["b"])
        assert b"1" == client.eval(GET, 1, "a")
        pipe = client.pipeline(transaction=True)
        pipe.execute_command("EVALSHA_RO", sha, "1", "b", keys=["b"])
        assert [b"2"] == pipe.execute()


def test_a_script_of_another_partition_keeps_its_users_rights(cluster: RespServer) -> None:
    """A user who may only run EVALSHA runs what others have brought, with the user's own rights."""
    with connected_to(cluster) as client:
        client.flushall()
        client.script_flush()
        client.execute_command("ACL", "SETUSER", "bob", "on", ">secret", "~*", "+evalsha", "+get", "-set")
        assert [b"OK", b"1"] == [client.eval(SET, 1, "a", "1"), client.eval(GET, 1, "a")]
        sha, forbidden = (hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest() for source in (GET, SET))
        with connected_to(cluster, username="bob", password="secret") as bob:
            assert bob.evalsha(sha, 1, "b") is None
            with pytest.raises(ResponseError, match="User bob has no permissions to run the 'set' command"):
                bob.evalsha(forbidden, 1, "b", "2")
            with pytest.raises(NoPermissionError):
                bob.eval(GET, 1, "b")
        client.execute_command("ACL", "DELUSER", "bob")
