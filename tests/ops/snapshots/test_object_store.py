"""Snapshots in a real S3 server, from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.faults.service import ServiceProcess
from tests.ops.snapshots.stores import state_of
from tests.ops.verbs import get, run, succeed
from tests.real.object_store import SECRET, ObjectStore

EVENTS = [{"cmd": "HSET", "args": [f"h{number % 7}", f"f{number}", "v" * 1000]} for number in range(200)]


def test_a_round_through_s3(object_store: ObjectStore, tmp_path: Path) -> None:
    """Taken, listed, verified, deleted and restored as in a directory, under the prefix of the address."""
    data = state_of(tmp_path, EVENTS, 2)
    url = f"{object_store.url}/backups/east"
    taken = json.loads(succeed("snapshot", "--data", data, "--to", url, "--json"))["snapshots"]
    again = json.loads(succeed("snapshot", "--data", data, "--to", url, "--json"))["snapshots"]
    verified = succeed("snapshots", "verify", "--from", url, "--data", data)
    succeed("snapshots", "delete", taken[0]["id"], "--from", url, "--data", data)
    listed = json.loads(succeed("snapshots", "list", "--from", url, "--data", data, "--json"))
    collected = succeed("snapshots", "collect", "--from", url, "--data", data)
    succeed("restore", "--from", url, "--to", tmp_path / "restored")
    digests = [
        json.loads(succeed("digest", "--data", each, "--json"))["digest"] for each in (data, tmp_path / "restored")
    ]

    assert [True, True] == [0 < each["new_bytes"] < each["bytes"] for each in again]
    assert 4 == verified.count("  verified\n")
    assert {taken[1]["id"], *(each["id"] for each in again)} == {each["id"] for each in listed}
    assert "0 files deleted, 0 bytes\n" == collected
    assert digests[0] == digests[1]
    assert ["east"] == [path.name for path in (object_store.bucket / "backups").iterdir()]


def test_a_lost_file_is_named(object_store: ObjectStore, tmp_path: Path) -> None:
    """A file that is gone from the bucket refuses the snapshot."""
    data = state_of(tmp_path, EVENTS)
    succeed("snapshot", "--data", data, "--to", object_store.url)
    next(path for path in (object_store.bucket / "files").iterdir() if path.stat().st_size > 1000).unlink()
    result = run("restore", "--from", object_store.url, "--to", tmp_path / "restored")

    assert 1 == result.exit_code
    assert "is missing (files/" in result.stderr
    assert [] == list((tmp_path / "restored").iterdir())


@pytest.mark.parametrize(
    ("name", "value"), [("AWS_SECRET_ACCESS_KEY", "canary-wrong"), ("AWS_ACCESS_KEY_ID", "canary-nobody")]
)
def test_no_error_shows_a_credential(
    name: str, value: str, object_store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the server refuses the login, the error is one line, names the store, and shows no secret."""
    data = state_of(tmp_path, EVENTS)
    monkeypatch.setenv(name, value)
    result = run("snapshot", "--data", data, "--to", object_store.url)

    assert 1 == result.exit_code
    assert result.stderr.startswith("slotlog: s3://bucket: ")
    assert 1 == result.stderr.count("\n")
    assert [] == [word for word in (SECRET, "canary-wrong") if word in result.output]


def test_a_service_logs_no_credential(object_store: ObjectStore, tmp_path: Path) -> None:
    """Nor one of a login that is refused, also where everything is logged."""
    data = state_of(tmp_path, EVENTS)
    wrong = {"AWS_SECRET_ACCESS_KEY": "canary-wrong", "AWS_SESSION_TOKEN": "canary-token", "SLOTLOG_LOG_LEVEL": "debug"}
    schedule = {"SLOTLOG_SNAPSHOTS__URL": object_store.url, "SLOTLOG_SNAPSHOTS__EVENTS": "1"}
    with ServiceProcess(["--data", str(data), "--http", "127.0.0.1:0"], {**wrong, **schedule}) as service:
        failed = service.wait_for("snapshot_failed")
        shown = [get(service, path).text for path in ("/status", "/metrics", "/readyz")]
        assert 0 == service.terminate()
        service.wait_for_end()

    assert failed["error"].startswith("s3://bucket: ")
    assert "canary" not in json.dumps([service.seen, shown])
