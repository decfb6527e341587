"""kill -9 at each step of taking, verifying, deleting, collecting and restoring snapshots, and of cutting the log."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
from pathlib import Path
from tempfile import TemporaryFile
from threading import Event, Thread
from typing import Any, Self

import pytest

from ops.snapshots.steps import Step
from slotlog.events import encode
from slotlog.log import Entry
from tests.faults.killed import CHILD
from tests.faults.logs import opened_log
from tests.faults.service import ServiceProcess
from tests.ops.snapshots.stores import apply, state_of
from tests.ops.verbs import run, succeed, wait_for_offset, wait_until, write_lines
from tests.real import forks

EVENTS = [{"cmd": "HSET", "args": [f"h{number % 7}", f"f{number}", "v" * 100]} for number in range(100)]
MORE = [{"cmd": "INCR", "args": ["n"]} for _ in range(10)]

TAKING = (
    Step.LINKED,
    Step.DESCRIBED,
    Step.UPLOADED_ONE,
    Step.UPLOADED,
    Step.PUBLISHED,
    Step.FETCHED,
    Step.CHECKED,
    Step.MARKED,
)
DELETING = (Step.UNMARKED,)
COLLECTING = (Step.CONDEMNED, Step.COLLECTED)
RESTORING = (Step.FETCHED, Step.IN_PLACE)
SERVING = (Step.FETCHED, Step.PUT_ASIDE, Step.IN_PLACE)
TRIMMING = (Step.TRIMMED, Step.GAVE_BACK)
_LOAD_PAUSE_SECONDS = 0.01
IN_CHILD = TAKING[1:]
"""The steps of a service's snapshot that its child does."""


def killed(step: Step, *words: object) -> None:
    """Run a verb that must meet the step, and is killed there."""
    command = [sys.executable, "-m", "tests.faults.killed", step, *map(str, words)]
    with TemporaryFile() as said:
        code = forks.start(command, os.environ, stderr=said.fileno()).wait(60)
        said.seek(0)
        assert -signal.SIGKILL == code, said.read().decode()


def facts(*words: object) -> Any:
    """What a verb says in JSON."""
    return json.loads(succeed(*words, "--json"))


def digest(data: Path) -> str:
    """Of a state."""
    return str(facts("digest", "--data", data)["digest"])


class Kept:
    """A state of which there is a verified snapshot, and which has changed since.

    Args:
        directory: of the test.
    """

    def __init__(self, directory: Path) -> None:
        self.data = state_of(directory, EVENTS)
        self.store = directory / "store"
        self.first = str(facts("snapshot", "--data", self.data, "--to", self.store)["snapshots"][0]["id"])
        self.first_digest = digest(self.data)
        succeed("produce", write_lines(directory / "more", MORE), "--data", self.data)
        apply(self.data, directory / "again")
        self.digest = digest(self.data)

    def offered(self) -> list[str]:
        """The verified snapshots, the oldest first: each is whole, as a look at all of it shows."""
        there = facts("snapshots", "list", "--from", self.store, "--data", self.data)
        offered = [each["id"] for each in there if each["verified"]]
        if offered:
            succeed("snapshots", "verify", *offered, "--from", self.store, "--data", self.data)
        return offered

    def restored(self, to: Path) -> str:
        """The digest of what is restored from the newest one."""
        succeed("restore", "--from", self.store, "--to", to)
        found = digest(to)
        shutil.rmtree(to)
        return found


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    """A state with a snapshot."""
    return Kept(tmp_path)


def test_every_step_is_met() -> None:
    """Each step that has a name is one at which a test of this file kills."""
    assert set(Step) == {*TAKING, *DELETING, *COLLECTING, *RESTORING, *SERVING, *TRIMMING}


@pytest.mark.parametrize("step", TAKING)
def test_killed_while_one_is_taken(step: Step, kept: Kept, tmp_path: Path) -> None:
    """What is offered is whole: the one before, and the new one only after its mark. The next attempt goes on."""
    killed(step, "snapshot", "--data", kept.data, "--to", kept.store)
    offered = kept.offered()
    between = kept.restored(tmp_path / "between")
    (again,) = facts("snapshot", "--data", kept.data, "--to", kept.store)["snapshots"]
    is_marked = step is Step.MARKED

    assert (kept.first, 2 if is_marked else 1) == (offered[0], len(offered))
    assert (kept.digest if is_marked else kept.first_digest) == between
    assert kept.digest == again["digest"] == digest(kept.data) == kept.restored(tmp_path / "after")
    assert not (kept.data / "scratch").exists()


@pytest.mark.parametrize("step", RESTORING)
def test_killed_while_one_is_restored(step: Step, kept: Kept, tmp_path: Path) -> None:
    """There is all of the state or nothing of it; nothing can be restored again, all is left as it is."""
    to = tmp_path / "to"
    killed(step, "restore", "--from", kept.store, "--to", to)
    is_there = (to / "0").exists()
    if not is_there:
        succeed("restore", "--from", kept.store, "--to", to)

    assert (step is Step.IN_PLACE) == is_there
    assert kept.first_digest == digest(to)
    assert [kept.first] == kept.offered()


def test_killed_while_one_is_deleted(kept: Kept, tmp_path: Path) -> None:
    """Without its mark it is not offered; verified again it is whole, and it can be deleted."""
    killed(Step.UNMARKED, "snapshots", "delete", kept.first, "--from", kept.store, "--data", kept.data)
    offered = kept.offered()
    succeed("snapshots", "verify", kept.first, "--from", kept.store, "--data", kept.data)

    assert [] == offered
    assert [kept.first] == kept.offered()
    assert kept.first_digest == kept.restored(tmp_path / "restored")


@pytest.mark.parametrize("step", COLLECTING)
def test_killed_while_files_are_collected(
    step: Step, kept: Kept, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of snapshots stay, and the rest goes at later times."""
    killed(Step.UPLOADED, "snapshot", "--data", kept.data, "--to", kept.store)  # whose files nobody needs
    monkeypatch.setenv("SLOTLOG_SNAPSHOTS__GRACE_HOURS", "0.000001")
    words = ("snapshots", "collect", "--from", kept.store, "--data", kept.data)
    if step is Step.COLLECTED:
        succeed(*words)
    killed(step, *words)
    offered = kept.offered()
    for _ in range(3):
        succeed(*words)

    assert [kept.first] == offered == kept.offered()
    assert kept.first_digest == kept.restored(tmp_path / "restored")
    assert [] == list((kept.store / "condemned").iterdir())


@pytest.mark.damaging
@pytest.mark.parametrize("step", SERVING)
def test_killed_while_a_service_restores(step: Step, kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next start restores again, or goes on with what is in place; all of the log is applied in the end."""
    (manifest,) = (kept.data / "0").glob("MANIFEST-*")
    manifest.write_bytes(manifest.read_bytes()[:20])
    monkeypatch.setenv("SLOTLOG_SNAPSHOTS__URL", str(kept.store))
    killed(step, "serve", "--data", kept.data, "--http", "")
    with ServiceProcess(["--data", str(kept.data), "--http", ""]) as service:
        service.wait_for("started")
        succeed("wait", "--data", kept.data)
        assert 0 == service.terminate()

    assert kept.digest == digest(kept.data)
    assert 1 == len(list((kept.data / "aside").iterdir()))
    assert not (kept.data / "scratch").exists()


@pytest.mark.parametrize("step", TRIMMING)
def test_killed_while_the_log_is_cut(step: Step, kept: Kept, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log begins where the snapshot reaches, and what is restored applies the rest; a second cut does nothing."""
    monkeypatch.setenv("SLOTLOG_SNAPSHOTS__URL", str(kept.store))
    killed(step, "trim", "--data", kept.data)
    checked = succeed("check", "--log", "--data", kept.data)
    (again,) = facts("trim", "--data", kept.data)["partitions"]
    replayed = facts("replay", "--data", kept.data, "--to", tmp_path / "to")

    assert "all is well" in checked
    assert (len(EVENTS) - 1, 0) == (again["begin_offset"], again["deleted"])
    assert kept.digest == replayed["digest"]


class Load(Thread):
    """Appends increments to a log, one transaction after the other, until the block ends.

    Args:
        data: the directory of the log.

    Attributes:
        appended: how many events.
    """

    def __init__(self, data: Path) -> None:
        super().__init__()
        self.appended = 0
        self._url = f"sqlite:///{data / 'log.sqlite3'}"
        self._ends = Event()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End after the append under way."""
        self._ends.set()
        self.join()

    def run(self) -> None:
        """Append."""
        asyncio.run(self._append())

    async def _append(self) -> None:
        async with opened_log(self._url, "slotlog") as log:
            while not self._ends.is_set():
                event = encode("HINCRBY", [b"load", b"f%d" % (self.appended % 50), self.appended])
                await log.append([Entry(0, None, event)] * 2)
                self.appended += 2
                await asyncio.sleep(_LOAD_PAUSE_SECONDS)

    def wait_for_more(self) -> None:
        """Until more was appended."""
        before = self.appended
        wait_until(lambda: self.appended > before, "the load to go on")


def unbroken(kept: Kept, directory: Path) -> str:
    """The digest of the state, which both a replay of all events and a snapshot with the events after it must have."""
    directory.mkdir()
    all_of_it = facts("replay", "--data", kept.data, "--to", directory / "all")
    tail = facts("replay", "--data", kept.data, "--to", directory / "tail", "--from-snapshot")
    assert all_of_it["live_digest"] == all_of_it["digest"] == tail["digest"]
    return digest(kept.data)


@pytest.mark.timeout(300)
def test_killed_in_the_child_of_a_service(kept: Kept, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At each step, under load, the service goes on and says so, and what is offered is whole; the next one is taken.

    In the end the state, the last snapshot with the tail, and a replay of everything are the same.
    """
    die = tmp_path / "die"
    words, program = ["--data", str(kept.data), "--http", "127.0.0.1:0"], ("tests.faults.killed", "none")
    offered = [kept.first]
    with ServiceProcess(words, {CHILD: str(die)}, program) as service, Load(kept.data) as load:
        service.wait_for("started")
        for step in IN_CHILD:
            load.wait_for_more()
            die.write_text(step)
            failed = run("snapshot", "--data", kept.data, "--to", kept.store)
            assert (1, False) == (failed.exit_code, die.exists()), (step, failed.output)
            assert "its process was ended from outside" in failed.stderr
            newer = kept.offered()
            assert offered == newer[: len(offered)]
            assert len(newer) - len(offered) == (step is Step.MARKED), step
            offered = newer
        load.wait_for_more()
        (last,) = facts("snapshot", "--data", kept.data, "--to", kept.store)["snapshots"]
        load.wait_for_more()
        load.stop()
        end = len(EVENTS) + len(MORE) + load.appended
        wait_for_offset(service, end)
        assert 0 == service.terminate(20)
    monkeypatch.setenv("SLOTLOG_SNAPSHOTS__URL", str(kept.store))

    assert len(EVENTS) + len(MORE) < last["next_offset"] < end
    assert last["digest"] == kept.restored(tmp_path / "restored")
    assert unbroken(kept, tmp_path / "unbroken") != last["digest"]
    assert not (kept.data / "scratch").exists()


def test_a_service_is_killed_while_it_takes_one(kept: Kept, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under load, right after the pause: the next start goes on with the log, and removes what was left over."""
    monkeypatch.setenv("SLOTLOG_SNAPSHOTS__URL", str(kept.store))
    words = ["--data", str(kept.data), "--http", "127.0.0.1:0"]
    often = {"SLOTLOG_SNAPSHOTS__EVENTS": "1"}
    with Load(kept.data) as load:
        with ServiceProcess(words, often, ("tests.faults.killed", Step.LINKED)) as service:
            service.wait_for_end()
            assert -signal.SIGKILL == service.exit_code()
        left_over = [path for path in (kept.data / "scratch").glob("*") if path.is_dir()]
        load.wait_for_more()
    with ServiceProcess(words) as service:
        service.wait_for("started")
        wait_for_offset(service, len(EVENTS) + len(MORE) + load.appended)
        wait_until(lambda: not (kept.data / "scratch").exists(), "what was left over to be removed")
        assert 0 == service.terminate(20)

    assert 1 == len(left_over)
    assert [kept.first] == kept.offered()
    assert unbroken(kept, tmp_path / "unbroken") != kept.digest
