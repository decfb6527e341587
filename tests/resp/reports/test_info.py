"""INFO: sections, fields and counters, over the wire and beside the oracle."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import Any

import pytest

from resp.resources.memory import memory_use
from tests.real.oracle import Connection
from tests.resp.processes import serving
from tests.wire.servers import RespServer

DEFAULT = (
    *("server", "clients", "memory", "persistence", "stats", "replication", "cpu", "modules", "errorstats", "cluster"),
    *("keyspace", "slotlog"),
)
ON_DEMAND = ("commandstats", "latencystats")

VALKEYS = (
    *("valkey_version", "valkey_release_stage", "availability_zone", "listener1", "clients_hz", "cluster_connections"),
    *("paused_reason", "paused_actions", "paused_timeout_milliseconds", "tls_", "io_threaded_"),
    *("slot_migration", "expired_fields", "expired_keys_with_volatile"),
    *("total_net_cluster_slot", "mem_cluster_slot", "acl_access_denied_tls", "acl_access_denied_db"),
    *("replicas_waiting_psync", "module", "mem_replica_"),
    *("mem_replicas_", "aof_", "rdb_last_load", "io_threads_active", "rdb_saves", "used_active_time"),
)
"""What the fields begin with that valkey has and Redis 7 has not, or that belong to what slotlog has not."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RespServer]:
    """A standalone slotlog."""
    with serving(tmp_path_factory.mktemp("info")) as running:
        yield running


@pytest.fixture
def client(server: RespServer) -> Iterator[Connection]:
    """A connection to it, no keys, counters at 0."""
    connection = server.connect()
    connection.pipeline([["FLUSHALL"], ["CONFIG", "RESETSTAT"]])
    yield connection
    connection.close()


def sections(connection: Connection, *wanted: str) -> dict[str, dict[str, str]]:
    """INFO as section -> field -> value."""
    found: dict[str, dict[str, str]] = {}
    for block in connection.call("INFO", *wanted).decode().split("\r\n\r\n"):
        lines = block.strip().split("\r\n")
        found[lines[0].removeprefix("# ").lower()] = dict(line.split(":", maxsplit=1) for line in lines[1:])
    return found


def test_default_sections(client: Connection) -> None:
    """INFO alone and `default` have the default sections in Redis' order; the statistics of commands are on demand."""
    assert (list(DEFAULT), list(DEFAULT)) == (list(sections(client)), list(sections(client, "default")))


@pytest.mark.parametrize("word", ["all", "everything", "ALL"])
def test_all_sections(client: Connection, word: str) -> None:
    """`all` and `everything` have every section."""
    assert {*DEFAULT, *ON_DEMAND} == set(sections(client, word))


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (("keyspace", "cpu"), ["cpu", "keyspace"]),
        (("CommandStats",), ["commandstats"]),
        (("default", "latencystats"), [*DEFAULT[:-3], "latencystats", *DEFAULT[-3:]]),
        (("cpu", "nosuch"), ["cpu"]),
    ],
)
def test_chosen_sections(client: Connection, wanted: tuple[str, ...], expected: list[str]) -> None:
    """Named sections come in INFO's order, whatever order they are named in; unknown ones are left out."""
    assert expected == list(sections(client, *wanted))


@pytest.mark.parametrize(
    "section", ["server", "clients", "memory", "persistence", "stats", "replication", "cpu", "cluster"]
)
def test_fields_are_those_of_redis(client: Connection, oracle: Connection, section: str) -> None:
    """A section has the oracle's fields, but for those of valkey alone and of what slotlog has not."""
    ours, theirs = sections(client, section)[section], sections(oracle, section)[section]

    assert [] == [name for name in theirs if name not in ours and not name.startswith(VALKEYS)]


def test_values_have_the_oracles_form(client: Connection, oracle: Connection) -> None:
    """A field that is a number in the oracle is one here, so that nobody who reads them stumbles."""
    ours, theirs = _fields(client), _fields(oracle)
    different = [name for name in ours if name in theirs and _form(ours[name]) != _form(theirs[name])]

    assert [] == different


def _fields(connection: Connection) -> dict[str, str]:
    found = sections(connection)
    for section in ("keyspace", "modules", "slotlog"):
        found.pop(section, None)
    found["server"].pop("redis_build_id")  # a hash there, 0 here: there is no build
    return {name: value for fields in found.values() for name, value in fields.items()}


def _form(value: str) -> str:
    """What kind of text a value is."""
    if value.lstrip("-").isdecimal():
        return "integer"
    if value.endswith("%"):
        return "percent"
    if value[-1:] in {"B", "K", "M", "G"} and value[:-1].replace(".", "").isdecimal():
        return "size"
    return "decimal" if value.replace(".", "").isdecimal() else "text"


def test_text_is_verbatim(client: Connection, oracle: Connection) -> None:
    """INFO is verbatim text in RESP3, and ends its lines as Redis does."""
    for connection in (client, oracle):
        connection.call("HELLO", "3")
        connection._socket.sendall(b"INFO cluster\r\n")
        assert b"=" == connection._replies.readline()[:1]
        assert [b"txt:# Cluster\r\n", b"cluster_enabled:0\r\n"] == [connection._replies.readline() for _ in range(2)]


def test_commands_are_counted(client: Connection) -> None:
    """Calls, failures and refusals of each command, hits and misses, and error codes."""
    client.pipeline(
        [["SET", "a", "1"], ["GET", "a"], ["GET", "none"], ["GET"], ["LPUSH", "a", "1"], ["CLIENT", "ID"], ["NOSUCH"]]
    )
    found = sections(client, "all")
    calls = {name: dict(part.split("=") for part in value.split(",")) for name, value in found["commandstats"].items()}

    assert ("2", "1") == (calls["cmdstat_get"]["calls"], calls["cmdstat_get"]["rejected_calls"])
    assert ("1", "1") == (calls["cmdstat_lpush"]["calls"], calls["cmdstat_lpush"]["failed_calls"])
    assert "1" == calls["cmdstat_client|id"]["calls"]
    assert ("1", "1") == (found["stats"]["keyspace_hits"], found["stats"]["keyspace_misses"])
    assert {"errorstat_ERR": "count=2", "errorstat_WRONGTYPE": "count=1"} == found["errorstats"]
    assert "3" == found["stats"]["total_error_replies"]


def test_reads_count_wherever_they_run(client: Connection, oracle: Connection) -> None:
    """Reads find their key or miss it alone, behind a write of their connection, and in a MULTI, as in Redis."""
    alone = [["GET", "a"], ["GET", "none"]]
    for connection in (client, oracle):
        connection.pipeline([["SET", "a", "1"], ["CONFIG", "RESETSTAT"]])
        connection.pipeline(alone)
        connection.pipeline([["SET", "b", "1"], *alone])
        connection.pipeline([["MULTI"], *alone, ["EXEC"]])
        connection.pipeline([["MULTI"], ["SET", "b", "2"], *alone, ["EXEC"]])
        found = sections(connection, "stats")["stats"]

        assert ("4", "4") == (found["keyspace_hits"], found["keyspace_misses"])


@pytest.mark.parametrize("before", [[], [["SET", "b", "1"]]])
def test_read_that_fails_is_no_hit(client: Connection, before: list[list[str]]) -> None:
    """A read that ends with an error counts as one, and neither as a hit nor as a miss, alone or behind a write."""
    client.pipeline([["SET", "a", "1"], ["CONFIG", "RESETSTAT"]])
    client.pipeline([*before, ["LRANGE", "a", "0", "x"]])
    found = sections(client, "all")

    assert ("0", "0") == (found["stats"]["keyspace_hits"], found["stats"]["keyspace_misses"])
    assert {"errorstat_ERR": "count=1"} == found["errorstats"]


def test_percentiles_follow_the_setting(client: Connection) -> None:
    """The latency of a command is shown at the percentiles that are asked for; without any it is not."""
    client.pipeline([["SET", "a", "1"], ["CONFIG", "SET", "latency-tracking-info-percentiles", "50 99.9"]])
    shown = sections(client, "latencystats")["latencystats"]["latency_percentiles_usec_set"]
    client.call("CONFIG", "SET", "latency-tracking-info-percentiles", "")

    assert ["p50", "p99.9"] == [part.partition("=")[0] for part in shown.split(",")]
    assert {} == sections(client, "latencystats")["latencystats"]
    client.call("CONFIG", "SET", "latency-tracking-info-percentiles", "50 99 99.9")


CHANGES = {
    "SET k v": 1,
    "DEL nosuch": 0,
    "EXPIRE k 100": 1,
    "EXPIRE nosuch 100": 0,
    "GET k": 0,
    "WATCH k": 0,
    "SADD s a": 1,
    "SADD  s a": 0,
    "LPOP s": 0,
    "MOVE k 1": 1,
    "SWAPDB 0 1": 1,
    "LTRIM nosuch 0 1": 0,
    "CONFIG RESETSTAT": 0,
    "SUNIONSTORE t nosuch": 0,
    "FLUSHALL": 1,
}
"""Commands in this order, and how many changes each of them is."""


def test_changes_are_counted_until_they_are_saved(client: Connection) -> None:
    """A write that changed something is a change, as in Redis; SAVE and BGSAVE begin anew."""
    client.call("SAVE")
    counted = []
    for command in CHANGES:
        client.call(*command.split())
        counted.append(int(sections(client, "persistence")["persistence"]["rdb_changes_since_last_save"]))
    client.call("SAVE")

    assert list(accumulate(CHANGES.values())) == counted
    assert "0" == sections(client, "persistence")["persistence"]["rdb_changes_since_last_save"]


def test_changes_of_one_batch(client: Connection) -> None:
    """Each write of a pipeline or a transaction counts; BGSAVE begins anew."""
    client.call("BGSAVE")
    client.pipeline([*[["INCR", "n"]] * 50, ["MULTI"], ["INCR", "n"], ["GET", "n"], ["LPUSH", "n", "x"], ["EXEC"]])

    assert "51" == sections(client, "persistence")["persistence"]["rdb_changes_since_last_save"]
    client.call("BGSAVE")
    assert "0" == sections(client, "persistence")["persistence"]["rdb_changes_since_last_save"]


def test_changes_are_counted_before_what_stands_behind_them(client: Connection) -> None:
    """In one pipeline INFO counts the write before it, and SAVE begins anew behind it."""
    client.call("SAVE")
    write, ask = ["SET", "k", "v"], ["INFO", "persistence"]
    got = client.pipeline([write, ask, write, ["SAVE"], ask])

    assert [b"rdb_changes_since_last_save:1\r", b"rdb_changes_since_last_save:0\r"] == [
        line for text in (got[1], got[4]) for line in text.split(b"\n") if line.startswith(b"rdb_changes")
    ]


def test_keyspace_is_counted(client: Connection) -> None:
    """Keys and keys with a time to live of each database that has any."""
    client.pipeline([["SET", "a", "1"], ["SET", "b", "1", "EX", "100"], ["SELECT", "3"], ["HSET", "h", "f", "1"]])
    found = sections(client, "keyspace")["keyspace"]
    first, left_ms, last = found["db0"].partition(",avg_ttl=")[0], *found["db0"].rpartition("avg_ttl=")[2].split(",")

    assert ["db0", "db3"] == list(found)
    assert ("keys=2,expires=1", "subexpiry=0") == (first, last)
    assert "keys=1,expires=0,avg_ttl=0,subexpiry=0" == found["db3"]
    assert 0 < int(left_ms) <= 100_000


def test_a_hash_counts_by_its_own_time_to_live(client: Connection) -> None:
    """As in Redis: not by those of its fields, whichever comes first. By these it counts in `subexpiry`.

    There one is missing whose own death comes before that of its first field.
    """
    by_field = ["HSETEX", "by_field", "EX", "100", "FIELDS", "1", "f", "1"]
    both = [["HSETEX", "both", "EX", "100", "FIELDS", "1", "f", "1"], ["EXPIRE", "both", "200"]]
    own = [["HSETEX", "own", "EX", "100", "FIELDS", "1", "f", "1"], ["EXPIRE", "own", "50"]]
    client.pipeline([by_field, *both, *own])
    keys, expires, mean_ms, hashes = sections(client, "keyspace")["keyspace"]["db0"].split(",")

    assert ("keys=3", "expires=2", "subexpiry=2") == (keys, expires, hashes)
    assert 120_000 < int(mean_ms.partition("=")[2]) <= 125_000


def test_many_keys_that_die_are_counted_in_steps(client: Connection) -> None:
    """More than 10,000 keys with a time to live are counted over several INFO, and the count is exact in the end."""
    client.pipeline([["SET", str(number), "1", "EX", "1000"] for number in range(10_001)])
    counted = [sections(client, "keyspace")["keyspace"]["db0"].split(",")[1] for _ in range(2)]

    assert "expires=10001" in counted
    client.call("FLUSHALL")
    assert {} == sections(client, "keyspace")["keyspace"]


def test_how_the_loop_spends_its_time(client: Connection) -> None:
    """Turns of the event loop, its busy time and that of commands grow, the last one least, and begin anew."""
    names = ["eventloop_cycles", "eventloop_duration_sum", "eventloop_duration_cmd_sum"]
    seen = []
    for _ in range(2):
        client.pipeline([["PING"]] * 20)
        stats = sections(client, "stats")["stats"]
        seen.append([int(stats[name]) for name in names])
    rates = [f"instantaneous_eventloop_{name}" for name in ("cycles_per_sec", "duration_usec")]
    while not all(int(stats[name]) for name in rates):  # sampled ten times a second
        stats = sections(client, "stats")["stats"]
    client.call("CONFIG", "RESETSTAT")
    anew = int(sections(client, "stats")["stats"][names[0]])

    assert all(before < after for before, after in zip(*seen, strict=True))
    assert 0 < seen[1][2] < seen[1][1]
    assert anew < seen[1][0]


def test_listeners_are_named(server: RespServer, client: Connection) -> None:
    """INFO says where clients may connect to, as Redis does."""
    assert f"name=tcp,bind=127.0.0.1,port={server.address[1]}" == sections(client, "server")["server"]["listener0"]


def test_own_section_names_every_partition(client: Connection) -> None:
    """The section `slotlog` has each partition's condition, next offset and lag."""
    before = sections(client, "slotlog")["slotlog"]
    client.call("SET", "a", "1")
    after = sections(client, "slotlog")["slotlog"]

    assert ("1", "1") == (after["partitions"], after["partitions_owned"])
    assert _partition(before)["next_offset"] + 1 == _partition(after)["next_offset"]
    assert "state=running" in after["partition0"]


def _partition(section: dict[str, str]) -> dict[str, Any]:
    fields = dict(part.split("=") for part in section["partition0"].split(","))
    return {name: int(value) for name, value in fields.items() if name != "state"}


def test_memory_is_measured() -> None:
    """The process' resident memory is at most its peak, at most the machine's, and no less than this list of bytes."""
    ballast = bytearray(64 * 1024 * 1024)
    ballast[::4096] = b"x" * len(ballast[::4096])
    use = memory_use()

    assert len(ballast) < use.rss_bytes <= use.peak_bytes < use.system_bytes
    assert use.startup_bytes <= use.rss_bytes


def test_scripts_and_functions_are_counted(client: Connection) -> None:
    """How many there are, what they and Lua take, and how many went when EVAL had brought more than 500."""
    client.pipeline([["SCRIPT", "FLUSH"], ["FUNCTION", "FLUSH"]])
    before = sections(client)["memory"]
    assert ("0", "0", "0") == (
        before["number_of_cached_scripts"],
        before["used_memory_scripts"],
        before["number_of_libraries"],
    )
    evicted = int(sections(client)["stats"]["evicted_scripts"])
    library = (
        "#!lua name=lib\nredis.register_function('f', function() end) redis.register_function('g', function() end)"
    )
    client.pipeline([["FUNCTION", "LOAD", library], ["SCRIPT", "LOAD", "return 0"]])
    client.pipeline([["EVAL", f"return {number}", "0"] for number in range(1, 506)])
    memory = sections(client)["memory"]
    figures = {name: int(memory[name]) for name in memory if memory[name].isdigit()}
    assert (501, 1, 2) == tuple(figures[f"number_of_{what}"] for what in ("cached_scripts", "libraries", "functions"))
    assert 5 == int(sections(client)["stats"]["evicted_scripts"]) - evicted
    assert sum(len(f"return {number}") for number in (0, *range(6, 506))) == figures["used_memory_scripts_eval"]
    assert figures["used_memory_functions"] > len(library)
    assert figures["used_memory_scripts"] == figures["used_memory_scripts_eval"] + figures["used_memory_functions"]
    assert figures["used_memory_lua"] == figures["used_memory_vm_total"] > 100_000
    client.pipeline([["SCRIPT", "FLUSH"], ["FUNCTION", "FLUSH"]])
