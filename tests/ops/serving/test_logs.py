"""A service logs its life, and never a key, a value or a password."""

from __future__ import annotations

import io
import json
import logging
import socket
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

import pytest
from msgpack import packb

from engine.errors import CorruptionError
from ops.logging import OnceAMinute, configure_logging, print_traceback, shown_traceback
from slotlog.events import encode
from slotlog.log import Entry, open_log
from slotlog.shared.errors import EventError
from slotlog.shared.shown_errors import named_error, shown_error
from tests.faults.service import ServiceProcess
from tests.ops.verbs import get, wait_for_offset, wait_until
from tests.real.oracle import Connection, ErrorReply
from tests.tidy.source import PRODUCT

CANARY = "canary-7d2b"

E = TypeVar("E", bound=Exception)

MISUSED = (
    ("SET", f"key:{CANARY}", CANARY),
    ("LPUSH", f"key:{CANARY}", CANARY),
    ("INCR", f"key:{CANARY}"),
    ("SET", f"key:{CANARY}", CANARY, CANARY),
    ("GETEX", f"key:{CANARY}", "EX", CANARY),
    ("ZADD", f"z:{CANARY}", CANARY, CANARY),
    ("HINCRBY", f"h:{CANARY}", CANARY, CANARY),
    ("RESTORE", f"r:{CANARY}", "0", CANARY),
    ("XADD", f"x:{CANARY}", "*", CANARY, CANARY),
    (CANARY, CANARY, CANARY),
    ("AUTH", CANARY),
    ("AUTH", CANARY, CANARY),
    ("HELLO", "3", "AUTH", CANARY, CANARY),
    ("CONFIG", "SET", "requirepass", CANARY),
    ("CONFIG", "SET", CANARY, CANARY),
    ("ACL", "SETUSER", CANARY, "on", f">{CANARY}", f"~{CANARY}*", "+@all"),
    ("CLIENT", "SETNAME", CANARY),
    ("EVAL", CANARY, "0"),
    ("SUBSCRIBE", CANARY),
)

EVENTS = (
    b"\xc1" + CANARY.encode(),
    packb({"v": 1, "cmd": f"SET k {CANARY}", "args": []}),
    packb({"v": 1, "cmd": "SET", "args": [CANARY, [CANARY]]}),
    packb({"v": 1, "cmd": "SET", "args": [CANARY]}),
    packb({"v": 1, "cmd": "SET", "args": [CANARY, CANARY, CANARY]}),
    packb({"v": 1, "cmd": "LPUSH", "args": [CANARY, CANARY]}),
    packb({"v": 1, "cmd": "SET", "args": [CANARY, CANARY], CANARY: CANARY}),
    packb({"v": 1, "cmd": "SET", "args": [CANARY, CANARY], "id": CANARY * 20}),
    packb({"v": 1, "cmd": "EXEC", "args": [["SET", CANARY, CANARY], ["LPUSH", CANARY, CANARY], ["GET"]]}),
    packb({"v": 1, "cmd": "EXEC", "args": [["SET", CANARY, CANARY], ["LPUSH", CANARY, CANARY]]}),
)


BUG: Final = """
import asyncio
import logging

from engine.commands.registry import command

@command("BUG key value", group="test", since="test", complexity="O(1)", write=True, notifies="")
def bug(tx, args):
    async def forgotten():
        raise RuntimeError(args[1])
    asyncio.create_task(forgotten())
    try:
        int(args[1])
    except ValueError as error:
        raise KeyError(args[1]) from error
"""
"""What Python runs first when it finds it as `sitecustomize`."""

STOPPING: Final = (
    encode("SET", [CANARY, CANARY]),
    encode("EXPIRE", [CANARY, 1, CANARY]),
    encode("BUG", [CANARY, CANARY]),
)


async def append_events(data: Path, events: Sequence[bytes] = EVENTS) -> None:
    """Records that are dead letters, and some that are rejected, in the embedded log."""
    log = open_log(f"sqlite:///{data}/log.sqlite3", topic="slotlog", partitions=1)
    await log.start()
    await log.append([Entry(0, None, value) for value in events])
    await log.close()


async def test_no_key_value_or_password_is_in_any_line(tmp_path: Path) -> None:
    """At the most talkative level, with everything misused: not in the log, the metrics, or what HTTP answers."""
    await append_events(tmp_path)
    options = ["--data", str(tmp_path), "--http", "127.0.0.1:0", "--resp", "127.0.0.1:0"]
    with ServiceProcess(options, {"SLOTLOG_LOG_LEVEL": "debug"}) as service:
        port = service.wait_for("resp")["port"]
        service.wait_for("started")
        wait_for_offset(service, len(EVENTS))
        for command in MISUSED:
            client = Connection(("127.0.0.1", port))
            client.call(*command)
            client.close()
        with socket.create_connection(("127.0.0.1", port)) as raw:
            raw.sendall(f"*1\r\n${CANARY}\r\n".encode())
            raw.recv(1000)
        http = next(line["port"] for line in service.seen if line["event"] == "http")
        for rubbish in (f"GET /metrics HTTP/1.1\r\nX: {CANARY * 1000}\r\n\r\n", f"{CANARY}\r\n\r\n"):
            with socket.create_connection(("127.0.0.1", http)) as raw:
                raw.sendall(rubbish.encode())
                raw.recv(1000)
        pages = [get(service, path).text for path in ("/metrics", "/livez", "/readyz", "/status", "/")]
        assert 0 == service.terminate()
        service.wait_for_end()
    assert {"dead_letters", "rejected", "started", "stopped"} <= {line["event"] for line in service.seen}
    assert [] == [line for line in service.seen if CANARY in json.dumps(line)]
    assert [] == [line for page in pages for line in page.splitlines() if CANARY in line]


async def test_no_bug_shows_a_key_or_a_value(tmp_path: Path) -> None:
    """What Python says of a bug has the argument in it: not so the reason of the stopped partition, nor a traceback."""
    await append_events(tmp_path, STOPPING)
    (tmp_path / "sitecustomize.py").write_text(BUG)
    options = ["--data", str(tmp_path), "--http", "127.0.0.1:0", "--resp", "127.0.0.1:0"]
    with ServiceProcess(options, {"SLOTLOG_LOG_LEVEL": "debug", "PYTHONPATH": str(tmp_path)}) as service:
        port = service.wait_for("resp")["port"]
        service.wait_for("started")
        wait_until(lambda: get(service, "/readyz").json["partitions"][0]["condition"] == "stopped", "it to stop")
        client = Connection(("127.0.0.1", port))
        reply = client.call("SET", "a", "1")
        client.close()
        pages = [get(service, path).text for path in ("/metrics", "/livez", "/readyz", "/status", "/")]
        reason = get(service, "/readyz").json["partitions"][0]["reason"]
        assert 0 == service.terminate()
        service.wait_for_end()
    (failed,) = [line for line in service.seen if line["event"] == "partition_failed"]
    where = [(each["exc_type"], each["exc_value"]) for each in failed["exception"]]

    assert reason == "offset 2 (BUG) cannot be applied: KeyError in sitecustomize, line 15"
    assert where[1:] == [
        ("KeyError", "KeyError in sitecustomize, line 15"),
        ("ValueError", "ValueError in sitecustomize, line 13"),
    ]
    assert isinstance(reply, ErrorReply)
    assert reason in str(reply)
    assert "Task exception was never retrieved" in {line["event"] for line in service.seen}
    assert ["ERR Unsupported option (which is left out here)"] == [
        line["first_error"] for line in service.seen if line["event"] == "rejected"
    ]
    assert [] == [line for line in service.seen if CANARY in json.dumps(line)]
    assert [] == [line for page in pages for line in page.splitlines() if CANARY in line]


def raised(error: E, cause: Exception | None = None) -> E:
    """The same exception, once it was raised, from that cause."""
    with suppress(type(error)):
        raise error from cause
    return error


def test_texts_that_are_shown() -> None:
    """Our own, the system's and RocksDB's, which quote nothing; of the others their class and line."""
    place = f"in {__name__}, line {raised.__code__.co_firstlineno + 3}"
    of_rocksdb, other = Exception("IO error: No space left on device"), Exception(CANARY)

    assert "CorruptionError: block 7" == named_error(raised(CorruptionError("block 7")))
    assert "OSError: [Errno 28] full" == named_error(raised(OSError(28, "full")))
    assert "IO error: No space left on device" == shown_error(raised(of_rocksdb)) == named_error(raised(of_rocksdb))
    assert [f"{name} {place}" for name in ("Exception", "KeyError", "EventError")] == [
        shown_error(raised(error)) for error in (other, KeyError(CANARY), EventError(CANARY))
    ]
    assert "KeyError" == shown_error(KeyError(CANARY))


@pytest.mark.parametrize("package", PRODUCT)
def test_texts_of_our_own_are_shown(package: str) -> None:
    """Of an exception of each package: its text is ours, and quotes nothing."""
    error = type("OwnError", (Exception,), {"__module__": f"{package}.room"})("it is full")

    assert "OwnError: it is full" == named_error(error)


def test_tracebacks_without_texts() -> None:
    """Causes and groups are there with their places, for JSON and for a terminal, but not what they were about."""
    noted = KeyError(CANARY)
    noted.add_note(CANARY)
    group = ExceptionGroup(CANARY, [raised(noted), raised(CorruptionError("block 7"))])
    error = raised(LookupError(CANARY), raised(group))
    exc_info = (type(error), error, error.__traceback__)
    as_json, out = shown_traceback(exc_info), io.StringIO()
    print_traceback(out, exc_info)

    assert ["LookupError", "ExceptionGroup"] == [stack["exc_type"] for stack in as_json]
    assert ["KeyError", "CorruptionError"] == [stack["exc_type"] for (stack,) in as_json[1]["exceptions"]]
    assert "block 7" == as_json[1]["exceptions"][1][0]["exc_value"]
    assert "raised" == as_json[0]["frames"][-1]["name"]
    assert CANARY not in json.dumps(as_json)
    assert CANARY not in out.getvalue()
    assert out.getvalue().splitlines()[-1].startswith(f"LookupError in {__name__}, line ")


def test_what_is_in_a_group_is_there_once() -> None:
    """Also where the group was raised because of it, or it because of the group: no line is lost or repeats a text."""
    first, second = raised(KeyError(CANARY)), raised(IndexError(CANARY))
    group = raised(ExceptionGroup(CANARY, [first, second]), first)
    second.__cause__ = group
    exc_info = (type(group), group, group.__traceback__)
    (as_json,), out = shown_traceback(exc_info), io.StringIO()
    print_traceback(out, exc_info)
    places = [line.partition(" in ")[0] for line in out.getvalue().splitlines() if not line.startswith(" ")]

    assert ["KeyError", "IndexError"] == [stack["exc_type"] for (stack,) in as_json["exceptions"]]
    assert ["KeyError", "ExceptionGroup", "IndexError"] == places
    assert CANARY not in json.dumps(as_json) + out.getvalue()


def test_a_chatty_library_is_heard_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each kind of line the first, then one a minute that says how many there were; other loggers are not meant."""
    now = [1000.0]
    monkeypatch.setattr("ops.logging.monotonic", lambda: now[0])
    seldom = OnceAMinute("chatty")

    def said(name: str, text: str, *args: object) -> str | None:
        record = logging.LogRecord(name, logging.ERROR, "", 0, text, args, None)
        return record.getMessage() if seldom.filter(record) else None

    first = [said("chatty.conn", "no %s", number) for number in range(3)]
    others = [said("chatty.conn", "none"), said("chatty.client", "no %s", 7), said("else", "a"), said("else", "a")]
    now[0] += 60
    later = [said("chatty.conn", "no %s", number) for number in range(3, 5)]

    assert ["no 0", None, None] == first
    assert ["none", "no 7", "a", "a"] == others
    assert ["no 3 (and 2 like it before)", None] == later


def test_lines_of_aiokafka_have_no_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    """What aiokafka logs with an exception is one line with its name; other loggers keep their tracebacks."""
    configure_logging(json=True)
    for name in ("aiokafka.consumer.fetcher", "other"):
        try:
            {"a value": 1}["another value"]
        except KeyError:
            logging.getLogger(name).exception("it failed in %s", name)
    kafka, other = (json.loads(line) for line in capsys.readouterr().err.splitlines())

    assert kafka["event"].startswith("it failed in aiokafka.consumer.fetcher: KeyError in ")
    assert "exception" not in kafka
    assert "another value" not in kafka["event"]
    assert "exception" in other
