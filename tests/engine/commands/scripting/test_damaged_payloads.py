"""FUNCTION RESTORE of payloads that were damaged: an error, or libraries, and nothing else."""

from __future__ import annotations

import os
from collections.abc import Iterator
from random import Random
from typing import Final

import pytest

from engine.apply.machine import Machine
from engine.errors import CommandError
from engine.values.rdb.decode import FOOTER_BYTES
from engine.values.rdb.encode import seal
from engine.values.rdb.functions import dump
from engine.values.replies import OK, Reply
from tests.engine.commands.scripting.function_steps import function, library
from tests.engine.commands.scripting.harness import outcome
from tests.engine.harness import new_store, open_machine
from tests.real.oracle import Connection

FLIPS: Final = int(os.environ.get("FUNCTION_FLIPS", "500"))
"""Payloads of each kind; `make nightly` tries more."""

CODES: Final = (
    library("a", function("f", "return redis.call('GET', 'k')"), function("g", "return 1")) + b"--" + b"x" * 100,
    library("b", "redis.register_function{function_name='h', callback=function() end, flags={'no-writes'}}"),
    library("c", "local n = 0 redis.register_function('next', function() n = n + 1 return n end)"),
)
VERSIONS: Final = (0, 9, 10, 11, 12, 80, 81, 0xFFFF)


@pytest.fixture(params=["packed", "plain"])
def payload(request: pytest.FixtureRequest, oracle: Connection) -> bytes:
    """The libraries as valkey-server packs them, with LZF, and as they are packed here."""
    if request.param == "plain":
        return dump(CODES)
    for code in CODES:
        oracle.call("FUNCTION", "LOAD", code)
    packed: bytes = oracle.call("FUNCTION", "DUMP")
    return packed


def damaged(content: bytes, random: Random) -> bytes:
    """It with some bits turned over, some bytes that say something in the format, or an end elsewhere."""
    changed = bytearray(content)
    for _ in range(random.choice((1, 1, 2, 8))):
        changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    for _ in range(random.choice((0, 0, 1, 2))):
        changed[random.randrange(len(changed))] = random.choice(
            (0, 0x7F, 0x80, 0x81, 0xC0, 0xC2, 0xC3, 0xF5, 0xF6, 0xFF)
        )
    if random.randrange(4) == 0:
        del changed[random.randrange(len(changed)) :]
    return bytes(changed)


def resealed(payload: bytes, random: Random) -> Iterator[bytes]:
    """Damaged ones with the checksum of what is in them."""
    for _ in range(FLIPS):
        version = random.choice(VERSIONS) if random.randrange(10) == 0 else 10
        yield seal([damaged(payload[:-FOOTER_BYTES], random)], version)


def restore(machine: Machine, payload: bytes, policy: bytes) -> Reply:
    """The reply of FUNCTION RESTORE."""
    return outcome(machine, "FUNCTION|RESTORE", payload, policy)


def test_a_damaged_payload_is_refused(payload: bytes) -> None:
    """Bits turned over, or an end elsewhere: the checksum tells, and the libraries that are there stay."""
    machine, random = open_machine(new_store()), Random(1)
    assert OK == restore(machine, payload, b"APPEND")
    before = machine.kept[1].codes
    for _ in range(FLIPS):
        if (changed := damaged(payload, random)) == payload:
            continue
        reply = restore(machine, changed, random.choice((b"FLUSH", b"REPLACE", b"APPEND")))
        assert isinstance(reply, CommandError), changed
        assert "ERR DUMP payload version or checksum are wrong" == reply.message
    assert before == machine.kept[1].codes


def test_any_payload_with_a_right_checksum_is_restored_or_refused(payload: bytes) -> None:
    """After an error all libraries are as before; else they are there, and their own payload brings the same ones."""
    machine, random = open_machine(new_store()), Random(2)
    other = open_machine(new_store())
    results = {True: 0, False: 0}
    for changed in resealed(payload, random):
        before = machine.kept[1].codes
        reply = restore(machine, changed, random.choice((b"FLUSH", b"REPLACE", b"APPEND")))
        results[isinstance(reply, CommandError)] += 1
        if isinstance(reply, CommandError):
            assert before == machine.kept[1].codes, changed
            continue
        assert OK == reply, changed
        packed = dump(machine.kept[1].codes.values())
        assert OK == restore(other, packed, b"FLUSH"), changed
        assert machine.kept[1].codes == other.kept[1].codes
    assert all(results.values()), results
