"""Verbs in unusual conditions: some partitions only, another topic, damage, closed pipes."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from ops.state.opening.directories import partition_path
from slotlog.events import encode
from slotlog.log import Entry, open_log
from slotlog.shared.slots import partition_of, slot
from tests.ops.verbs import run, succeed

PARTITIONS = 4
KEYS = [next(b"%d" % n for n in range(99) if partition_of(slot(b"%d" % n), PARTITIONS) == p) for p in range(PARTITIONS)]
END = 3
START_MS = 1_357_016_400_000


async def _append(data: Path) -> None:
    log = open_log(f"sqlite:///{data / 'log.sqlite3'}", topic="orders", partitions=PARTITIONS)
    await log.start()
    for partition, key in enumerate(KEYS):
        await log.append(
            [
                Entry(partition, slot(key).to_bytes(2, "big"), encode("INCR", [key]), START_MS + number)
                for number in range(END)
            ]
        )
    await log.close()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of four partitions with three records in each, and the state of all of them beside it."""
    data = tmp_path_factory.mktemp("whole") / "data"
    asyncio.run(_append(data))
    log = f"sqlite:///{data / 'log.sqlite3'}"
    succeed("replay", "--log", log, "--topic", "orders", "--partitions", PARTITIONS, "--to", data.parent / "to")
    for partition in range(PARTITIONS):
        partition_path(data.parent / "to", partition).rename(partition_path(data, partition))
    return data


@pytest.fixture
def part(whole: Path, tmp_path: Path) -> Path:
    """A copy without the state of partition 2."""
    data = tmp_path / "data"
    shutil.copytree(whole, data)
    shutil.rmtree(partition_path(data, 2))
    return data


def damage(data: Path, partition: int) -> None:
    """Cut RocksDB's manifest off."""
    (manifest,) = partition_path(data, partition).glob("MANIFEST-*")
    manifest.write_bytes(manifest.read_bytes()[:20])


def test_reads_know_the_state(whole: Path) -> None:
    """Topic and number of partitions stand in the state: who reads it need not repeat them."""
    assert [f'"{END}"\n'] * PARTITIONS == [succeed("query", "--data", whole, "GET", key.decode()) for key in KEYS]
    assert PARTITIONS == len(succeed("dump", "--data", whole).splitlines())
    assert f"stands before offset {END}" in run("skip", 3, 0, "--data", whole).stderr


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (("--topic", "bills"), "its topic is orders, not bills;"),
        (("--partitions", 8), "its topic has 4 partitions, not 8;"),
    ],
)
def test_what_is_said_must_fit(option: tuple[object, ...], said: str, whole: Path) -> None:
    """A topic or number of partitions that was given is held against the state."""
    results = [run(verb, "--data", whole, *option) for verb in ("digest", "dump")]

    assert [1, 1] == [result.exit_code for result in results]
    assert [True, True] == [said in result.stderr for result in results]


def test_digest_shows_each_partition(whole: Path) -> None:
    """The first digest is the sum of those of the partitions, which `digest` and `replay` show as well."""
    facts = json.loads(succeed("digest", "--data", whole, "--json"))
    said = succeed("digest", "--data", whole)

    sum_of = sum(int(partition["digest"], 16) for partition in facts["partitions"]) % (1 << 256)
    assert (int(facts["digest"], 16), PARTITIONS, []) == (sum_of, facts["keys"], facts["missing"])
    assert [1] * PARTITIONS == [partition["keys"] for partition in facts["partitions"]]
    assert said.startswith(f"{facts['digest']}  4 keys\n")
    assert [f"  digest    {partition['digest']}  1 key" for partition in facts["partitions"]] == said.splitlines()[2::2]


def test_replay_shows_each_partition_and_the_sum(whole: Path, tmp_path: Path) -> None:
    """A replay of several partitions ends with the digest of all of them, in JSON too."""
    digest = json.loads(succeed("digest", "--data", whole, "--json"))["digest"]
    said = succeed("replay", "--data", whole, "--to", tmp_path / "said").splitlines()
    facts = json.loads(succeed("replay", "--data", whole, "--to", tmp_path / "facts", "--json"))

    assert ["all: 4 keys", f"  replayed  {digest}", f"  live      {digest}  equal"] == said[-3:]
    assert (digest, digest, 4) == (facts["digest"], facts["live_digest"], facts["keys"])


def test_part_of_a_topic_is_read(part: Path) -> None:
    """Without --own the partitions that are there are read; those that are not are named."""
    facts = json.loads(succeed("digest", "--data", part, "--json"))
    dump, size = run("dump", "--data", part), run("query", "--data", part, "DBSIZE")

    assert ([0, 1, 3], [2], 3) == ([each["partition"] for each in facts["partitions"]], facts["missing"], facts["keys"])
    assert (
        f"not counted: partition 2, of which {part} has no state" == succeed("digest", "--data", part).splitlines()[-1]
    )
    assert (3, "(integer) 3\n") == (len(dump.stdout.splitlines()), size.stdout)
    assert [f"slotlog: {part} has no state of partition 2\n"] * 2 == [dump.stderr, size.stderr]


@pytest.mark.parametrize("words", [("digest",), ("dump",), ("query", "DBSIZE")])
def test_own_says_what_must_be_there(words: tuple[str, ...], part: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """--own names the partitions to read, as an option or as a setting; one that is not there is an error."""
    some, absent = run(*words, "--data", part, "--own", "0,3"), run(*words, "--data", part, "--own", "1-2")
    monkeypatch.setenv("SLOTLOG_OWN", "2")

    assert (0, "") == (some.exit_code, some.stderr)
    assert "has no state of partition 2" in absent.stderr
    assert [1, 1] == [absent.exit_code, run(*words, "--data", part).exit_code]


def test_replay_of_a_part(part: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """--own, or SLOTLOG_OWN, limits a replay; what it cannot be compared with is said, and no error."""
    (rebuilt,) = json.loads(succeed("replay", "--data", part, "--to", tmp_path / "2", "--own", 2, "--json"))[
        "partitions"
    ]
    monkeypatch.setenv("SLOTLOG_OWN", "0,3")
    succeed("replay", "--data", part, "--to", tmp_path / "0,3")

    assert (2, END, None) == (rebuilt["partition"], rebuilt["next_offset"], rebuilt["live_digest"])
    assert f"{part} has no state of it" == rebuilt["note"]
    assert [["2"], ["0", "3"]] == [sorted(path.name for path in (tmp_path / to).iterdir()) for to in ("2", "0,3")]


def test_damaged_partition_is_rebuilt_and_put_in_place(whole: Path, tmp_path: Path) -> None:
    """The way back of docs/operations.md: replay the damaged partition, and move it to where it was."""
    data, to = tmp_path / "data", tmp_path / "rebuilt"
    shutil.copytree(whole, data)
    damage(data, 0)  # the first, so that what the state is must be learnt from another
    damaged = run("digest", "--data", data)
    (rebuilt,) = json.loads(succeed("replay", "--data", data, "--own", 0, "--to", to, "--json"))["partitions"]
    shutil.rmtree(partition_path(data, 0))
    partition_path(to, 0).rename(partition_path(data, 0))

    assert (1, True) == (damaged.exit_code, "is damaged" in damaged.stderr)
    assert (None, True) == (rebuilt["live_digest"], "is damaged" in rebuilt["note"])
    for verb in (("digest",), ("dump", "--raw")):
        assert succeed(*verb, "--data", whole) == succeed(*verb, "--data", data)


def test_replay_beside_a_foreign_state(whole: Path, tmp_path: Path) -> None:
    """A --data that holds another topic is noticed before the replay, and keeps nobody from its result."""
    foreign = tmp_path / "foreign"
    (tmp_path / "events").write_text('{"cmd": "INCR", "args": ["n"]}\n')
    succeed("produce", tmp_path / "events", "--data", foreign, "--topic", "bills")
    succeed("replay", "--data", foreign, "--topic", "bills", "--to", tmp_path / "to")
    partition_path(tmp_path / "to", 0).rename(partition_path(foreign, 0))
    log = ["--log", f"sqlite:///{whole / 'log.sqlite3'}", "--topic", "orders", "--partitions", PARTITIONS]
    said = run("replay", *log, "--data", foreign, "--to", tmp_path / "rebuilt")

    assert 0 == said.exit_code
    assert "  live      not compared: the state is another one: its topic is bills, not orders" in said.stdout
    assert succeed("digest", "--data", whole) == succeed("digest", "--data", tmp_path / "rebuilt")


@pytest.mark.parametrize(
    ("until", "reached"),
    [(END, END), (f"@{START_MS}", 0), (f"@{START_MS + 2}", 2), (f"@{START_MS + 9}", END)],
)
def test_until_an_offset_or_milliseconds(until: object, reached: int, whole: Path, tmp_path: Path) -> None:
    """--until takes the log's end as an offset, and @ for milliseconds."""
    facts = json.loads(succeed("replay", "--data", whole, "--to", tmp_path / "to", "--until", until, "--json"))

    assert [reached] * PARTITIONS == [partition["next_offset"] for partition in facts["partitions"]]


@pytest.mark.parametrize("until", [END + 1, START_MS])
def test_until_beyond_the_end_is_refused(until: int, whole: Path, tmp_path: Path) -> None:
    """An offset that the log has not reached is a mistake, most likely a time; nothing is made."""
    result = run("replay", "--data", whole, "--to", tmp_path / "to", "--until", until)

    assert (1, False) == (result.exit_code, (tmp_path / "to").exists())
    assert f"beyond the log's end at offset {END}; a time in milliseconds is written @{until}" in result.stderr


def pipe_into_nobody(words: Iterable[object]) -> tuple[int, str]:
    """Exit code and stderr of a verb whose output nobody reads."""
    verb = subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.readline(); from ops.cli import main; main()", *map(str, words)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert verb.stdout is not None
    verb.stdout.close()  # before it starts: it waits for a line
    verb.stdout = None
    _, said = verb.communicate("go\n", timeout=60)
    return verb.returncode, said


@pytest.mark.parametrize("words", [("dump", "--raw"), ("digest",), ("query", "DBSIZE")])
def test_reader_who_has_enough_is_no_error(words: tuple[str, ...], whole: Path) -> None:
    """`| head` closes the pipe: the verb ends quietly, whether its output was longer than a buffer or not."""
    assert (0, "") == pipe_into_nobody([*words, "--data", whole])
    assert (0, "") == pipe_into_nobody(["version"])


@pytest.mark.parametrize(
    "words", [["nosuch"], ["serve", "--nosuch"], ["skip", "x", "y"], ["replay"], ["query"], ["query", "--nosuch", "a"]]
)
def test_wrong_usage_in_json(words: list[str]) -> None:
    """With --json wrong usage is one JSON document, of the same form as other errors, with exit code 2."""
    plain, as_json = run(*words), run(*words, "--json")

    assert (2, 2, "") == (plain.exit_code, as_json.exit_code, as_json.stderr)
    assert "UsageError" == json.loads(as_json.stdout)["kind"]
    assert json.loads(as_json.stdout)["error"] in plain.stderr


def test_options_of_query_stand_anywhere(whole: Path) -> None:
    """Options may follow the command; negative numbers are arguments, and so is everything behind --."""
    key = KEYS[0].decode()

    assert "1\n" == succeed("query", "EXISTS", key, "--json", "--data", whole)
    assert '"3"\n' == succeed("query", "--data", whole, "GETRANGE", key, "-1", "-1")
    assert "(integer) 0\n" == succeed("query", "--data", whole, "--", "EXISTS", "--json")


def test_version_option() -> None:
    """`slotlog --version` is the version in one line."""
    assert f"slotlog {json.loads(succeed('version', '--json'))['slotlog']}\n" == succeed("--version")


@pytest.mark.parametrize(
    "words", [("produce", "absent"), ("produce", "."), ("replay", "--to", "file/to", "--data", "data")]
)
def test_errors_of_the_system_are_plain(
    words: tuple[str, ...], whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is not there, or is none, is named, without the number of the error."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    (tmp_path / "data").symlink_to(whole)
    result = run(*words)

    assert 1 == result.exit_code
    assert result.stderr in {
        "slotlog: absent: No such file or directory\n",
        "slotlog: .: Is a directory\n",
        "slotlog: file/to: Not a directory\n",
    }


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("version >&- 2>&- <&-", 0, ""),
        ("digest --data data >&-", 0, ""),
        ("produce - --data made <&-", 0, "0 events appended\n"),
        ("digest --data data --json >/dev/full", 1, "slotlog: No space left on device: make room, "),
        ("--help >/dev/full", 1, "slotlog: No space left on device: make room, "),
        ("serve --help >/dev/full", 1, "slotlog: No space left on device: make room, "),
        ("no-verb --json >/dev/full", 2, "slotlog: No such command"),
    ],
)
def test_streams_that_take_nothing(words: str, code: int, said: str, whole: Path, tmp_path: Path) -> None:
    """A stream that the caller has closed, or that is full, makes no traceback; a closed one's number is no file's."""
    (tmp_path / "data").symlink_to(whole)
    slotlog = Path(sys.executable).with_name("slotlog")
    done = subprocess.run(["sh", "-c", f"{slotlog} {words}"], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert (code, True) == (done.returncode, (done.stdout + done.stderr).startswith(said))
    assert "Traceback" not in done.stderr
