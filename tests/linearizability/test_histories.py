"""Histories of slotlog and of the oracle, killed in between, have an order that explains every reply."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from tests.linearizability.clients import recorded
from tests.linearizability.history import verdict
from tests.wire.servers import RespServer, slotlog, valkey

HISTORIES: Final = int(os.environ.get("SLOTLOG_HISTORIES", "20"))
"""Of the embedded log; a quarter of it on Kafka and of the server that the test itself is proved on."""

OPERATIONS: Final = 1500
_OFTEN: Final = 10
_COMMANDS: Final = (
    *("GET", "SET", "GETSET", "DEL", "INCR", "APPEND", "CAS"),
    *("RPUSH", "LPUSH", "LPOP", "RPOP", "LLEN", "LRANGE", "SADD", "SREM", "SISMEMBER", "SCARD"),
    *("XADD", "XLEN", "XRANGE", "XREADGROUP", "XACK", "XPENDING"),
    "unknown",
)


async def unexplained(server: RespServer, histories: int, pictures: Path) -> tuple[list[str], list[str]]:
    """Keys that no order explains or that could not be decided; and commands that were answered too rarely."""
    found: list[str] = []
    seen: Counter[str] = Counter()
    with server:
        for number in range(histories):
            history = await recorded(server, f"h{number}", OPERATIONS, number, kills=1)
            keys, illegal, undecided = verdict(history, pictures)
            assert keys == len({operation.key for operation in history})
            found += [f"illegal: {key}, see {pictures}" for key in illegal]
            found += [f"undecided: {key}" for key in undecided]
            seen.update("unknown" if operation.returned is None else operation.command for operation in history)
    return found, [command for command in _COMMANDS if seen[command] < _OFTEN]


@pytest.mark.timeout(600)
async def test_histories_are_linearizable(tmp_path: Path) -> None:
    """Whatever eight clients did while the server was killed and came back: one order explains all replies per key."""
    assert ([], []) == await unexplained(slotlog(tmp_path), HISTORIES, tmp_path)


@pytest.mark.timeout(600)
async def test_histories_on_kafka_are_linearizable(tmp_path: Path, kafka_bootstrap: str) -> None:
    """The same where the log is Kafka's."""
    server = slotlog(tmp_path, f"kafka://{kafka_bootstrap}")

    assert ([], []) == await unexplained(server, HISTORIES // 4, tmp_path)


async def test_the_oracle_passes(tmp_path: Path) -> None:
    """What is demanded here is what valkey-server does with `appendfsync always`."""
    assert ([], []) == await unexplained(valkey(tmp_path), HISTORIES // 4, tmp_path)


def test_a_forgetful_server_is_found(tmp_path: Path) -> None:
    """A server that keeps nothing over a kill is found out, and each key that shows it has its picture."""
    with valkey(tmp_path, durable=False) as server:
        history = asyncio.run(recorded(server, "h", OPERATIONS, 0, kills=2))
    illegal = verdict(history, tmp_path).illegal

    assert () != illegal
    assert {f"{key.encode().hex()}.html" for key in illegal} == {page.name for page in tmp_path.glob("*.html")}
