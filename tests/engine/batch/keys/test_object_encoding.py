"""OBJECT ENCODING: for the same content written the same way, what the oracle answers, around every threshold."""

from __future__ import annotations

import pytest

from engine.apply.machine import Machine
from engine.batch.keys.object_encoding import DEFAULT_KNOBS
from tests.engine.harness import FINGERPRINT, HOME, NOW_MS, new_store
from tests.real.oracle import Connection

COMMANDS: dict[str, list[list[bytes]]] = {
    **{f"string {value[:25]!r} of {len(value)}": [[b"SET", b"k", value]] for value in (
        b"0", b"-1", b"9223372036854775807", b"-9223372036854775808", b"9223372036854775808", b"+1", b"01", b"", b" 1",
        b"1.5", b"-0", b"x" * 44, b"x" * 200,
    )},
    **{f"list of {count} times {len(element)}": [[b"RPUSH", b"k", element]] * count for count, element in (
        (1, b"a"), (79, b"x" * 100), (80, b"x" * 100), (123, b"x" * 63 + b"y"), (122, b"x" * 64), (2, b"x" * 4096),
        (1, b"x" * 8185), (1, b"x" * 8186), (2, b"x" * 5000), (129, b"1"), (200, b"x" * 20),
    )},
    # Where going backwards over the first element takes a byte more, in nodes of 64 KiB and of 4 KiB.
    **{f"list of {first} and {last} bytes": [[b"RPUSH", b"k", b"x" * first], [b"RPUSH", b"k", b"y" * last]]
       for first, last in ((16378, 49144), (16378, 49145), (16379, 49142), (16379, 49143), (125, 3961), (125, 3962),
                           (126, 3959), (126, 3960))},
    **{f"list of numbers below {count} times {by}": [[b"RPUSH", b"k", b"%d" % (by * n)] for n in range(count)]
       for count, by in ((2770, 1), (2771, 1), (819, 1_000_000_007), (820, 1_000_000_007), (2000, -1))},
    **{f"hash of {count}": [[b"HSET", b"k", b"f%d" % n, b"v"] for n in range(count)] for count in (1, 512, 513)},
    "hash with a value of 64": [[b"HSET", b"k", b"f", b"x" * 64]],
    "hash with a value of 65": [[b"HSET", b"k", b"f", b"x" * 65]],
    "hash with a field of 65": [[b"HSET", b"k", b"x" * 65, b"v"]],
    **{f"set of {count} numbers": [[b"SADD", b"k", b"%d" % n] for n in range(count)] for count in (1, 512, 513)},
    **{f"set of {count}": [[b"SADD", b"k", b"m%d" % n] for n in range(count)] for count in (1, 128, 129)},
    "set with a number and a word": [[b"SADD", b"k", b"1"], [b"SADD", b"k", b"a"]],
    "set with a member of 65": [[b"SADD", b"k", b"x" * 65]],
    **{f"sorted set of {count}": [[b"ZADD", b"k", b"%d" % n, b"m%d" % n] for n in range(count)]
       for count in (1, 128, 129)},
    "sorted set with a member of 65": [[b"ZADD", b"k", b"1", b"x" * 65]],
}  # fmt: skip
KNOBS = {
    "defaults": {},
    "small": dict.fromkeys(DEFAULT_KNOBS, 2),
    "none": dict.fromkeys(DEFAULT_KNOBS, 0),
    "large": {**dict.fromkeys(DEFAULT_KNOBS, 1000), "list-max-listpack-size": -5},
    "nodes of 4 KiB": {"list-max-listpack-size": -1},
    "nodes of 100": {"list-max-listpack-size": 100},
}


@pytest.mark.parametrize("knobs", KNOBS)
def test_encodings_are_the_oracles(knobs: str, oracle: Connection) -> None:
    """Every content of the table, written one by one, with the defaults and with other settings."""
    changed = KNOBS[knobs]
    settings = {**DEFAULT_KNOBS, **changed}
    before = oracle.call("CONFIG", "GET", *DEFAULT_KNOBS)
    try:
        oracle.call("CONFIG", "SET", *(word for setting in settings.items() for word in setting))
        expected = {}
        for what, commands in COMMANDS.items():
            expected[what] = oracle.pipeline([["DEL", "k"], *commands, ["OBJECT", "ENCODING", "k"]])[-1]
    finally:
        oracle.call("CONFIG", "SET", *before)

    assert expected == {what: encoding_of(commands, settings) for what, commands in COMMANDS.items()}


def encoding_of(commands: list[list[bytes]], knobs: dict[str, int]) -> bytes:
    """What the engine answers about `k`, which these commands write."""
    machine = Machine(new_store(), HOME)
    records = [(n, NOW_MS, command[0], command[1:], 0, None, None) for n, command in enumerate(commands)]
    machine.apply(records, 0)
    machine.commit(FINGERPRINT)
    machine._tx.knobs = knobs
    encoding: bytes = machine.read(b"OBJECT|ENCODING", [b"k"])
    return encoding


def test_long_strings_are_raw() -> None:
    """From 45 bytes on: the oracle embeds some longer ones, depending on the name of the key and its time to live."""
    assert b"raw" == encoding_of([[b"SET", b"k", b"x" * 45]], {})


def test_defaults_are_the_oracles(oracle: Connection) -> None:
    """The settings' defaults."""
    reply = oracle.call("CONFIG", "GET", *DEFAULT_KNOBS)

    assert DEFAULT_KNOBS == {name.decode(): int(value) for name, value in zip(reply[::2], reply[1::2], strict=True)}
