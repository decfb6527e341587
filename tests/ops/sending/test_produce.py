"""`slotlog produce`: what goes into the log, where, and what is said when not all of it can."""

from __future__ import annotations

import asyncio
import fcntl
import json
import re
import signal
import subprocess
import sys
import termios
import tracemalloc
from array import array
from pathlib import Path
from typing import Any

import msgpack
import pytest

from slotlog.errors import AppendUncertainError, LogUnavailableError
from slotlog.events import decode
from slotlog.log import Entry, LogRecord, RecordPosition, open_log
from slotlog.log.embedded.embedded_log import EmbeddedLog
from slotlog.shared.slots import partition_of, slot
from tests.ops.verbs import run, succeed, wait_until, write_lines

SET = {"cmd": "SET", "args": ["a", "1"]}


async def _records(url: str, partitions: int, topic: str) -> list[list[LogRecord]]:
    log = open_log(url, topic=topic, partitions=partitions, create=False)
    await log.start()
    found = []
    for partition in range(partitions):
        reader = log.reader({partition: 0})
        records: list[LogRecord] = []
        while len(records) < await log.end_offset(partition):
            records += (await reader.fetch(200, 10_000)).get(partition, [])
        found.append(records)
        await reader.close()
    await log.close()
    return found


def records(url: str, partitions: int = 1, topic: str = "slotlog") -> list[list[LogRecord]]:
    """Everything in a log, by partition."""
    return asyncio.run(_records(url, partitions, topic))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory that is not there yet; the embedded log is made in it."""
    return tmp_path / "data"


def local(data: Path) -> str:
    """The URL of the embedded log there."""
    return f"sqlite:///{data / 'log.sqlite3'}"


@pytest.mark.parametrize("written", ["json", "msgpack"])
def test_events_are_appended_in_order(written: str, data: Path, tmp_path: Path) -> None:
    """Each event becomes one record: its bytes, its slot as the key, its time; both formats give the same."""
    events: list[dict[str, Any]] = [
        {"cmd": "SET", "args": ["greeting", "hello"], "time": 1_357_016_400_000},
        {"cmd": "SADD", "args": ["tags", b"\xff\x00"], "id": "one", "db": 2, "time": 1_357_016_400_001},
        {"cmd": "EXEC", "args": [["INCR", "a"], ["INCR", "b"]], "time": 1_357_016_400_002},
    ]
    file = tmp_path / "events"
    if written == "json":
        file.write_text(json.dumps(events, default=lambda _: {"base64": "/wA="})[1:-1].replace('}, {"cmd', '}\n{"cmd'))
    else:
        file.write_bytes(b"".join(map(msgpack.packb, events)))

    said = succeed("produce", file, "--data", data)

    assert "3 events appended\npartition 0: 3 records, offsets 0 to 2\n" == said
    assert [
        (0, 1_357_016_400_000, b"SET", [b"greeting", b"hello"], 0, None, None),
        (1, 1_357_016_400_001, b"SADD", [b"tags", b"\xff\x00"], 2, b"one", None),
        (2, 1_357_016_400_002, b"EXEC", [[b"INCR", b"a"], [b"INCR", b"b"]], 0, None, None),
    ] == [decode(offset, time_ms, value) for offset, time_ms, _, value in records(local(data))[0]]
    assert [slot(name).to_bytes(2, "big") for name in (b"greeting", b"tags", b"a")] == [
        record[2] for record in records(local(data))[0]
    ]


def test_time_never_goes_back(data: Path, tmp_path: Path) -> None:
    """A time before the newest one in the log counts as that one, and a note says of how many records."""
    file = write_lines(tmp_path / "events", [{**SET, "time": time} for time in (5000, 3000, 7000)])
    first, again = run("produce", file, "--data", data), run("produce", file, "--data", data, "--json")
    later = run("produce", write_lines(tmp_path / "later", [SET, {**SET, "time": 7000}]), "--data", data)

    assert [5000, 5000, 7000, 7000, 7000, 7000] == [record[1] for record in records(local(data))[0]][:6]
    assert "slotlog: 1 record got a later time than asked for, as the log's time never goes back\n" == first.stderr
    assert (0, 2) == (again.exit_code, json.loads(again.stdout)["later_times"])
    assert "1 record got a later time" in later.stderr


def test_slots_name_partitions(data: Path, tmp_path: Path) -> None:
    """Each record lies in the partition of its slot; an event without keys lies in every one."""
    names = [b"key:%d" % number for number in range(40)]
    events = [{"cmd": "SET", "args": [name.decode(), "1"]} for name in names]
    file = write_lines(tmp_path / "events", [*events, {"cmd": "FLUSHALL", "args": []}])
    said = json.loads(succeed("produce", file, "--data", data, "--partitions", 4, "--json"))
    found = records(local(data), 4)

    for partition, held in enumerate(found):
        expected = [name for name in names if partition_of(slot(name), 4) == partition]
        assert [*expected, b"FLUSHALL"] == [(decode(0, 0, r[3])[3] or [decode(0, 0, r[3])[2]])[0] for r in held]
        assert {
            "partition": partition,
            "records": len(held),
            "first_offset": 0,
            "last_offset": len(held) - 1,
        } == said["partitions"][partition]
    assert (41, 44) == (said["events"], sum(map(len, found)))


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("nonsense", "not JSON"),
        ('{"cmd":"NOSUCH","args":[]}', "unknown command"),
        ('{"cmd":"SET","args":["a"]}', "wrong number of arguments"),
        ('{"cmd":"SET","args":["a",true]}', "an argument is a bool"),
        ('{"cmd":"SET","args":["a",["b"]]}', "an argument is an array"),
        ('{"cmd":"SET","args":"a"}', "args is not an array"),
        ('{"cmd":5,"args":["a"]}', "cmd is not a string"),
        ('{"cmd":"SET","args":["a","1"],"id":""}', "id is not a string of 1 to 64 bytes"),
        ('{"cmd":"SET","args":["a","1"],"db":16}', "db is not an integer from 0 to 15"),
        ('{"cmd":"SET","args":["a","1"],"time":-1}', "time is outside"),
        ('{"cmd":"SET","args":["a","1"],"time":9007199254740}', "ahead of the wall clock, more than 60 s"),
        ('{"cmd":"SET","args":["a","1"],"time":9007199254741}', "time is outside"),
        ('{"cmd":"INCRBY","args":["a",18446744073709551616]}', "cannot be written as msgpack"),
        ('{"cmd":"SET","args":["a","\\ud800"]}', "cannot be written as msgpack"),
    ],
)
def test_bad_line_ends_it(bad: str, reason: str, data: Path, tmp_path: Path) -> None:
    """What stands before a bad line is sent, what stands behind it is not, and both are said with the line's number."""
    file = tmp_path / "events"
    file.write_text(
        f'{{"cmd":"INCR","args":["n"]}}\n{{"cmd":"INCR","args":["n"]}}\n{bad}\n{{"cmd":"INCR","args":["n"]}}\n'
    )
    result = run("produce", file, "--data", data)
    as_json = run("produce", file, "--data", data, "--json")

    assert (1, 1) == (result.exit_code, as_json.exit_code)
    assert "2 events appended\npartition 0: 2 records, offsets 0 to 1\n" == result.stdout
    assert result.stderr.startswith("slotlog: line 3: ")
    assert reason in result.stderr
    assert result.stderr.endswith("; nothing from there on was sent\n")
    assert 2 == json.loads(as_json.stdout)["events"]
    assert _at_any_time(f"slotlog: {json.loads(as_json.stdout)['error']}\n") == _at_any_time(result.stderr)
    assert "SendError" == json.loads(as_json.stdout)["kind"]
    assert 4 == len(records(local(data))[0])


def _at_any_time(text: str) -> str:
    """A text without how far a time is ahead of the wall clock, which another second changes."""
    return re.sub(r"\d+ s ahead", "… s ahead", text)


def test_cross_slot_is_refused_in_cluster_mode(data: Path, tmp_path: Path) -> None:
    """With several partitions, keys of several slots and another database than 0 are refused."""
    two_slots = write_lines(tmp_path / "slots", [{"cmd": "MSET", "args": ["a", "1", "b", "2"]}])
    database = write_lines(tmp_path / "db", [{**SET, "db": 1}])

    assert "CROSSSLOT" in run("produce", two_slots, "--data", data, "--partitions", 2).stderr
    assert "database 0 alone" in run("produce", database, "--data", data, "--partitions", 2).stderr
    assert [[], []] == records(local(data), 2)


class _Failing:
    """`EmbeddedLog.append`, failing at the n-th call."""

    def __init__(self, at: int, error: Exception, *, appends: bool) -> None:
        self._real = EmbeddedLog.append
        self._left = at
        self._error = error
        self._appends = appends

    def method(self) -> Any:
        """What stands in for it."""

        async def append(log: EmbeddedLog, entries: list[Entry]) -> list[RecordPosition]:
            self._left -= 1
            if self._left:
                return await self._real(log, entries)
            if self._appends:
                await self._real(log, entries)
            raise self._error

        return append


@pytest.mark.parametrize(
    ("error", "appends", "said"),
    [
        (LogUnavailableError("away"), False, "lines 2001 to 3000 were not sent, nor anything after them: away"),
        (AppendUncertainError("gone"), True, "lines 2001 to 3000 are in the log in part, whole or not at all"),
    ],
)
def test_failing_log_is_told(
    error: Exception, appends: bool, said: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the log fails midway, it is said which lines are in it, which are not, and which nobody can know."""
    monkeypatch.setattr(EmbeddedLog, "append", _Failing(3, error, appends=appends).method())
    result = run("produce", write_lines(tmp_path / "events", [SET] * 5000), "--data", data)

    assert (1, "2000 events appended\npartition 0: 2000 records, offsets 0 to 1999\n") == (
        result.exit_code,
        result.stdout,
    )
    assert said in result.stderr


def test_standard_input_is_sent_as_it_comes(data: Path, tmp_path: Path) -> None:
    """Events from a pipe are in the log before the pipe ends."""
    succeed("produce", write_lines(tmp_path / "events", [SET]), "--data", data)
    command = [sys.executable, "-m", "ops.cli", "produce", "-", "--data", str(data), "--json"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdin is not None
        process.stdin.write(json.dumps(SET).encode() + b'\n{"cmd":')
        wait_until(lambda: len(records(local(data))[0]) == 2, "the whole line to be in the log")
        process.stdin.write(b'"INCR","args":["a"]}')
        said, _ = process.communicate()

    assert (0, 2) == (process.returncode, json.loads(said)["events"])


def unread(pipe: Any) -> int:
    """How many bytes of a pipe nobody has read yet."""
    count = array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, count)
    return count[0]


def test_interruption_is_told(data: Path, tmp_path: Path) -> None:
    """Ctrl-C while the input is waited for ends it, and says how much was sent."""
    succeed("produce", write_lines(tmp_path / "events", [SET]), "--data", data)
    command = [sys.executable, "-m", "ops.cli", "produce", "-", "--data", str(data), "--json"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdin is not None
        process.stdin.write(json.dumps(SET).encode() + b"\n")
        wait_until(lambda: len(records(local(data))[0]) == 2, "the line to be in the log")
        process.stdin.write(b"{")
        wait_until(lambda: unread(process.stdin) == 0, "it to be told that the line is there, and to read on")
        process.send_signal(signal.SIGINT)
        assert process.stdout is not None
        said = process.stdout.read()  # to its end, before the input ends

    assert (130, 1) == (process.returncode, json.loads(said)["events"])
    assert json.loads(said)["error"].startswith("interrupted; ")
    assert "Interrupted" == json.loads(said)["kind"]


def test_memory_is_bounded(data: Path, tmp_path: Path) -> None:
    """The size of the input is no size of memory: 26 MB pass through less than 13."""
    file = write_lines(tmp_path / "events", [{"cmd": "SET", "args": ["a", "v" * 13_000]}] * 2000)
    tracemalloc.start()
    said = succeed("produce", file, "--data", data)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert said.startswith("2000 events appended")
    assert 26_000_000 < file.stat().st_size
    assert 13_000_000 > peak_bytes


def test_kafka_takes_no_time(kafka_bootstrap: str, tmp_path: Path) -> None:
    """On Kafka the broker stamps a record, so a line with a time is refused with that reason; without, it is sent."""
    options = ("--log", f"kafka://{kafka_bootstrap}", "--topic", f"produce-{tmp_path.name}", "--data", tmp_path)
    file = write_lines(tmp_path / "events", [SET, {**SET, "time": 5}])
    result = run("produce", file, *options)

    assert "1 event appended" in result.stdout
    assert "slotlog: line 2: time is for the embedded log alone" in result.stderr
    assert 1 == len(records(f"kafka://{kafka_bootstrap}", topic=f"produce-{tmp_path.name}")[0])


def test_missing_file_and_other_log_are_refused(data: Path, tmp_path: Path) -> None:
    """No file, another topic and another number of partitions are errors, in words and as JSON."""
    file = write_lines(tmp_path / "events", [SET])
    succeed("produce", file, "--data", data)

    assert (1, "") == (run("produce", tmp_path / "absent", "--data", data).exit_code, "")
    assert "topic" in run("produce", file, "--data", data, "--topic", "other").stderr
    said = json.loads(run("produce", file, "--data", data, "--partitions", 2, "--json").stdout)["error"]
    assert "has 1 partition, but was opened with 2" in said


def test_no_log_is_made_beside_a_state_that_has_another(data: Path, tmp_path: Path) -> None:
    """Where a state's log is elsewhere and nobody says where, an event is refused: nobody would read a new log."""
    file = write_lines(tmp_path / "events", [SET])
    elsewhere = f"sqlite:///{tmp_path / 'elsewhere.sqlite3'}"
    succeed("produce", file, "--log", elsewhere)
    succeed("replay", "--log", elsewhere, "--data", tmp_path / "none", "--to", data)

    result = run("produce", file, "--data", data)

    assert (
        1,
        f"slotlog: there is no log at {data / 'log.sqlite3'}: name it with --data or --log\n",
    ) == (result.exit_code, result.stderr)
    assert not (data / "log.sqlite3").exists()
    assert "1 event appended" in succeed("produce", file, "--data", data, "--log", elsewhere)


def test_check_names_every_line_that_could_not_be_sent(data: Path, tmp_path: Path) -> None:
    """--check judges each line as sending would, sends nothing, makes no log, and ends with exit code 1 for a fault."""
    file = tmp_path / "events"
    lines = [json.dumps(SET), '{"cmd": "NOPE", "args": []}', "", "xx", '{"cmd": "SET", "args": ["k"]}', json.dumps(SET)]
    file.write_text("\n".join(lines))
    result = run("produce", "--check", file, "--data", data)

    assert (1, "2 events can be sent, 3 cannot; nothing was sent\n") == (result.exit_code, result.stdout)
    assert ["line 2", "line 4", "line 5"] == re.findall(r"^slotlog: (line \d+): ", result.stderr, re.MULTILINE)
    assert not data.exists()


def test_check_of_sound_events(data: Path, tmp_path: Path) -> None:
    """With nothing wrong it ends with exit code 0; what sending refuses for its log, it refuses too."""
    file = write_lines(tmp_path / "events", [SET, {**SET, "time": 5}])
    sound = run("produce", "--check", file, "--data", data, "--json")
    stamped = run("produce", "--check", file, "--log", "kafka://127.0.0.1:1", "--json")

    assert (0, {"events": 2, "faults": 0, "first_faults": []}) == (sound.exit_code, json.loads(sound.stdout))
    assert (1, 1, 1) == (stamped.exit_code, *[json.loads(stamped.stdout)[name] for name in ("events", "faults")])


def test_check_ends_where_a_msgpack_stream_is_none(data: Path, tmp_path: Path) -> None:
    """Behind bytes that are no event nothing can be told; an event that is one but cannot be sent is passed."""
    file = tmp_path / "events"
    unknown = msgpack.packb({"cmd": "NOPE", "args": []})
    file.write_bytes(msgpack.packb(SET) + unknown + msgpack.packb(SET) + b"\xc1" + msgpack.packb(SET))
    result = run("produce", "--check", file, "--data", data, "--json")

    assert (2, 2) == tuple(json.loads(result.stdout)[name] for name in ("events", "faults"))
