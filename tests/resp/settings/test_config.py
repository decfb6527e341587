"""The parameters of CONFIG: what they may be, what a change does, and what is refused, held to the oracle."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from engine.batch.keys.object_encoding import DEFAULT_KNOBS
from engine.errors import CommandError
from resp.settings.config import Config, config_set
from resp.settings.parameters import BufferLimit
from tests.real.oracle import Connection, ErrorReply, MapReply, SimpleString


@pytest.fixture
def shown_oracle(oracle: Connection) -> Iterator[Connection]:
    """The oracle, with its parameters as they were after the test."""
    before = oracle.call("CONFIG", "GET", "*")
    values = dict(zip(before[::2], before[1::2], strict=True))
    yield oracle
    for name in CHANGED:
        assert SimpleString(b"OK") == oracle.call("CONFIG", "SET", name, values[name.encode()])


CHANGED = (
    *("maxclients", "maxmemory", "timeout", "tcp-keepalive", "client-query-buffer-limit", "client-output-buffer-limit"),
    *("proto-max-bulk-len", "slowlog-log-slower-than", "slowlog-max-len", "latency-monitor-threshold"),
    *("latency-tracking", "latency-tracking-info-percentiles", "notify-keyspace-events", "acllog-max-len"),
    *DEFAULT_KNOBS,
)
"""Every parameter that CONFIG SET changes, but `requirepass`, which would lock the tests out."""

REQUESTS = (
    "maxclients 5000",
    "maxclients 0",
    "maxclients -1",
    "maxclients 4294967296",
    "maxclients x",
    "MaxClients 77",
    *("maxmemory 100gb", "maxmemory 1tb", "maxmemory -1", "maxmemory 1%", "maxmemory 0"),
    *(
        "maxmemory-clients 5%",
        "maxmemory-clients 101%",
        "maxmemory-clients -5%",
        "maxmemory-clients x%",
        "maxmemory-clients 0",
    ),
    "timeout 2147483647",
    "timeout 2147483648",
    "timeout 1.5",
    "tcp-keepalive -1",
    "client-query-buffer-limit 1mb",
    "client-query-buffer-limit 1023kb",
    "client-query-buffer-limit 2GB",
    "client-query-buffer-limit 1x",
    "client-query-buffer-limit -1",
    "proto-max-bulk-len 100m",
    "slowlog-log-slower-than -1",
    "slowlog-log-slower-than -2",
    "slowlog-max-len 0",
    "slowlog-max-len 9223372036854775808",
    "latency-monitor-threshold 10",
    "latency-tracking no",
    "latency-tracking maybe",
    "latency-tracking YES",
    "hash-max-listpack-entries 3",
    "hash-max-ziplist-entries 4",
    "hash-max-listpack-value 1kb",
    "hash-max-listpack-value x",
    "set-max-intset-entries 0",
    "set-max-listpack-value 7",
    "set-max-listpack-value 7kb",
    "zset-max-ziplist-value 8",
    "list-max-listpack-size -5",
    "list-max-ziplist-size 2147483648",
    "notify-keyspace-events KEA",
    "notify-keyspace-events gxE",
    "notify-keyspace-events Q",
    "notify-keyspace-events Kn",
    "notify-keyspace-events KEAmn",
    "notify-keyspace-events g$lshzxetdE",
    "maxclients 10 maxclients 20",
    "maxclients 11 hash-max-listpack-entries x",
    "hash-max-listpack-entries 5 hash-max-ziplist-entries 6",
    "nosuch 1",
    "port 1 nosuch 2",
    "nosuch 1 maxclients 1 maxclients 2",
    "maxclients 1 timeout",
    "databases 3",
    "cluster-enabled yes",
    "daemonize yes",
)
"""Arguments of CONFIG SET, to be sent one after the other."""

QUOTED_REQUESTS = (
    ("notify-keyspace-events", ""),
    ("latency-tracking-info-percentiles", "50 99.90 100"),
    ("latency-tracking-info-percentiles", ""),
    ("latency-tracking-info-percentiles", "50 x"),
    ("latency-tracking-info-percentiles", "50 100.1"),
    ("client-output-buffer-limit", "normal 1mb 2k 3"),
    ("client-output-buffer-limit", "slave 1 1 1 replica 2 2 2"),
    ("client-output-buffer-limit", "PUBSUB 32mb 8mb 60 normal 0 0 0"),
    ("client-output-buffer-limit", "pubsub 1 2"),
    ("client-output-buffer-limit", "normal a b c"),
    ("client-output-buffer-limit", "normal 1 2 -3"),
    ("client-output-buffer-limit", "master 1 2 3"),
)


def _answer(config: Config, args: list[str]) -> Any:
    """What CONFIG SET answers."""
    try:
        config_set(config, [arg.encode() for arg in args])
    except CommandError as error:
        return ErrorReply(error.message.encode())
    return SimpleString(b"OK")


def test_config_set_answers_as_the_oracle(shown_oracle: Connection) -> None:
    """Each of a long list of requests has the oracle's reply, text included, and leaves the same values behind."""
    config = Config()
    requests = [request.split() for request in REQUESTS] + [list(request) for request in QUOTED_REQUESTS]
    for name in CHANGED:
        shown_oracle.call("CONFIG", "SET", name, config.show(name))

    for request in requests:
        assert (request, shown_oracle.call("CONFIG", "SET", *request)) == (request, _answer(config, request))
        values = dict(_pairs(shown_oracle.call("CONFIG", "GET", *CHANGED)))
        assert (request, values) == (request, {name.encode(): config.show(name).encode() for name in CHANGED})


def _pairs(flat: list[Any]) -> Iterator[tuple[Any, Any]]:
    return zip(flat[::2], flat[1::2], strict=True)


def test_longest_bulk_string_is_the_longest_value() -> None:
    """`proto-max-bulk-len` goes up to 512 MiB and no further, unlike the oracle's: a value cannot be longer here."""
    reason = "argument must be between 1048576 and 536870912 inclusive"
    refused = f"ERR CONFIG SET failed (possibly related to argument 'proto-max-bulk-len') - {reason}"

    assert SimpleString(b"OK") == _answer(Config(), ["proto-max-bulk-len", "512mb"])
    assert ErrorReply(refused.encode()) == _answer(Config(), ["proto-max-bulk-len", "536870913"])


@pytest.mark.parametrize("pattern", ["maxclients", "MAXC*", "*listpack*", "hash-*", "m[a]xclient?", "nosuch", ""])
def test_config_get_finds_what_the_oracle_finds(oracle: Connection, pattern: str) -> None:
    """A name or a glob finds the oracle's parameters, of those that slotlog has."""
    known = {name for name, _ in Config().matching([b"*"])}
    found = [name.decode() for name in oracle.call("CONFIG", "GET", pattern)[::2]]

    assert sorted(name for name in found if name in known) == [
        name for name, _ in Config().matching([pattern.encode()])
    ]


def test_every_parameter_is_one_of_redis(oracle: Connection) -> None:
    """Each parameter has a name of the oracle's, or one of Redis 7's, so that nothing is called differently here."""
    ours = [name for name, _ in Config().matching([b"*"])]

    assert ["sanitize-dump-payload"] == [name for name in ours if not oracle.call("CONFIG", "GET", name)]


@pytest.mark.parametrize(("name", "value"), [("list-compress-depth", "2"), ("sanitize-dump-payload", "clients")])
def test_forms_in_memory_may_be_set(name: str, value: str) -> None:
    """What Redis sets about a value's form in memory is taken and shown, though there is but one form here."""
    config = Config()
    config_set(config, [name.encode(), value.encode()])

    assert value == config.show(name)


def test_name_is_shown_as_it_was_asked_for(oracle: Connection) -> None:
    """A name without a wildcard is repeated as the client wrote it, as the oracle does."""
    assert [b"HZ", b"10"] == oracle.call("CONFIG", "GET", "HZ")
    assert [("HZ", "10")] == Config().matching([b"HZ"])


def test_several_patterns_give_each_parameter_once() -> None:
    """Patterns that overlap show a parameter once, and all are sorted by name."""
    assert Config().matching([b"maxClients", b"max*s", b"hz"]) == [
        ("hz", "10"),
        ("maxClients", "10000"),
        ("maxmemory-clients", "1073741824"),
        ("maxmemory-samples", "5"),
    ]


def test_nothing_is_set_when_one_cannot_be() -> None:
    """A request of which one value is wrong changes none of them, and no listener hears of it."""
    config = Config()
    heard: list[Any] = []
    config.on_change("maxclients", heard.append)

    with pytest.raises(CommandError):
        config.set_many([(b"maxclients", b"5"), (b"timeout", b"x")])

    assert ([], 10_000, 0) == (heard, config["maxclients"], config["timeout"])


def test_listeners_hear_the_new_value() -> None:
    """A listener is called with the parsed value, also when it is set by its older name."""
    config = Config()
    heard: list[Any] = []
    config.on_change("slowlog-max-len", heard.append)
    config.set_many([(b"commandlog-slow-execution-max-len", b"7")])

    assert [7] == heard


def test_follower_hears_the_value_at_once() -> None:
    """A follower is called with the value as it is, and with each new one."""
    config = Config({"timeout": "3"})
    heard: list[Any] = []
    config.follow("timeout", heard.append)
    config.set_many([(b"timeout", b"4")])

    assert [3, 4] == heard


def test_refusing_listener_takes_everything_back() -> None:
    """When a listener refuses a value, those told before hear the old one again, and nothing is changed."""
    config = Config()
    heard: list[Any] = []

    def refuse(value: int) -> None:
        raise ValueError("too many")

    config.on_change("timeout", heard.append)
    config.on_change("maxclients", refuse)
    with pytest.raises(CommandError) as refused:
        config.set_many([(b"timeout", b"5"), (b"maxclients", b"6")])

    assert "ERR CONFIG SET failed (possibly related to argument 'maxclients') - too many" == refused.value.message
    assert ([5, 0], 0, 10_000) == (heard, config["timeout"], config["maxclients"])


def test_password_is_handed_on_and_not_kept() -> None:
    """`requirepass` reaches its listener in clear; afterwards CONFIG GET says only whether there is one."""
    config = Config()
    heard: list[Any] = []
    config.on_change("requirepass", heard.append)

    config.set_many([(b"requirepass", b"s3cret")])
    assert (["s3cret"], "(hidden)", True) == (heard, config.show("requirepass"), config["requirepass"])

    config.set_many([(b"requirepass", b"")])
    assert (["s3cret", ""], "") == (heard, config.show("requirepass"))


def test_knobs_follow_their_parameters() -> None:
    """The mapping that OBJECT ENCODING reads has Redis' defaults, and changes in place."""
    config = Config()
    knobs = config.knobs
    assert dict(DEFAULT_KNOBS) == knobs

    config.set_many([(b"hash-max-ziplist-entries", b"9")])

    assert 9 == knobs["hash-max-listpack-entries"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("save", ""), ("appendonly", "yes"), ("maxmemory-policy", "noeviction"), ("databases", "16")),
        *(("stream-node-max-entries", "100"), ("stream-node-max-bytes", "4096")),
    ],
)
def test_what_is_so_already_may_be_set(name: str, value: str) -> None:
    """A constant, or a read-only parameter, may be set to the value that it has."""
    assert SimpleString(b"OK") == _answer(Config(), [name, value])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("save", "60 1"), ("appendonly", "no"), ("maxmemory-policy", "allkeys-lru"), ("port", "6380")),
        ("stream-node-max-entries", "2"),
    ],
)
def test_what_cannot_be_otherwise_is_refused(name: str, value: str) -> None:
    """A constant, or a read-only parameter, cannot be set to anything else."""
    reason = f"ERR CONFIG SET failed (possibly related to argument '{name}') - can't set immutable config"

    assert ErrorReply(reason.encode()) == _answer(Config(), [name, value])


def test_start_values_and_settings_are_shown() -> None:
    """What the process starts with is shown, read-only parameters and its own settings included."""
    config = Config({"port": "7000", "maxclients": "5"}, {"lag_events_ready_max": "3"})

    assert ("7000", 5) == (config.show("port"), config["maxclients"])
    assert [("slotlog-lag-events-ready-max", "3")] == config.matching([b"slotlog-*"])


def test_start_value_that_cannot_be_is_named() -> None:
    """A start value that is not one of the parameter's is an error that names it."""
    with pytest.raises(ValueError, match=r"^maxclients: argument must be between 1 and 4294967295 inclusive$"):
        Config({"maxclients": "0"})


def test_buffer_limits_are_numbers() -> None:
    """The limits of a class are bytes and seconds, by name."""
    config = Config()

    assert BufferLimit(33_554_432, 8_388_608, 60) == config["client-output-buffer-limit"].pubsub


def test_reply_is_a_map_in_the_oracle(oracle: Connection) -> None:
    """CONFIG GET is a map in RESP3, as ours is."""
    oracle.call("HELLO", "3")

    assert MapReply([(b"maxmemory", b"0")]) == oracle.call("CONFIG", "GET", "maxmemory")
