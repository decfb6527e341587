"""Values that are sealed under a key for each subject, which can be destroyed."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ops.config import load_settings
from slotlog import ErasedError, KeyFile, Personal, Producer, Sealer, SyncProducer, open_log
from slotlog.sealing import MAGIC, SEALED_BYTES, is_sealed
from tests.ops.verbs import run, succeed


@pytest.fixture
def keys(tmp_path: Path) -> KeyFile:
    """A key store."""
    return KeyFile(tmp_path / "keys.sqlite3")


@pytest.fixture
def sealer(keys: KeyFile) -> Sealer:
    """Of that store."""
    return Sealer(keys)


@pytest.mark.parametrize("value", [b"", b"Ann", bytes(range(256)), b"x" * 100_000])
def test_what_is_sealed_can_be_opened(sealer: Sealer, value: bytes) -> None:
    """The value comes back; sealed it is longer by a fixed length, and another one each time."""
    first, second = (sealer.seal("user:1", value, b"name") for _ in range(2))

    assert [value, value] == [sealer.open(each, b"name") for each in (first, second)]
    assert (True, len(value) + SEALED_BYTES) == (first != second, len(first))
    assert (MAGIC, True, False) == (first[:4], is_sealed(first), is_sealed(value))


def test_the_form_is_that_of_the_page(keys: KeyFile, sealer: Sealer) -> None:
    """Magic, key id, nonce, then what AES-256-GCM makes of value and associated data."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    sealed, key = sealer.seal("user:1", "Ann", b"c"), keys.of_subject("user:1")

    assert (b"\xf5sl\x01", key.id) == (sealed[:4], sealed[4:20])
    assert b"Ann" == AESGCM(key.secret).decrypt(sealed[20:32], sealed[32:], sealed[:20] + b"c")


def test_what_was_changed_is_refused(sealer: Sealer) -> None:
    """A flipped bit anywhere, another context, another subject's key id, or what is no sealed value."""
    sealed, other = sealer.seal("user:1", b"Ann", b"name"), sealer.seal("user:2", b"Bo", b"name")
    forged = [sealed[:at] + bytes([sealed[at] ^ 1]) + sealed[at + 1 :] for at in range(len(sealed))]
    forged += [sealed[:4] + other[4:20] + sealed[20:], sealed[:-1], b"Ann", sealed[:30]]

    for each in forged:
        with pytest.raises((ValueError, ErasedError)):
            sealer.open(each, b"name")
    with pytest.raises(ValueError, match="another context"):
        sealer.open(sealed, b"address")


def test_erasing_one_subject(keys: KeyFile, sealer: Sealer, tmp_path: Path) -> None:
    """Its values are lost, those of others are not; new ones of it have another key; its bytes are not in the file."""
    values = {subject: sealer.seal(subject, subject) for subject in ("user:1", "user:2")}
    secret = keys.of_subject("user:1").secret
    assert secret in (tmp_path / "keys.sqlite3").read_bytes()

    assert [True, False] == [keys.erase("user:1") for _ in range(2)]

    with pytest.raises(ErasedError):
        sealer.open(values["user:1"])
    assert b"user:2" == sealer.open(values["user:2"])
    assert b"again" == sealer.open(sealer.seal("user:1", b"again"))
    with pytest.raises(ErasedError):
        sealer.open(values["user:1"])
    assert secret not in (tmp_path / "keys.sqlite3").read_bytes()


def test_one_key_for_all_who_ask(tmp_path: Path) -> None:
    """Several that seal the first value of a subject at the same time get one key."""
    path = tmp_path / "keys.sqlite3"
    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(lambda _: KeyFile(path).of_subject("user:1"), range(16)))

    assert 1 == len(set(made))
    assert 0o600 == path.stat().st_mode & 0o777


def test_a_file_that_is_none(tmp_path: Path) -> None:
    """A store that must be there, and one that is something else, are refused."""
    with pytest.raises(FileNotFoundError):
        KeyFile(tmp_path / "missing", create=False)
    (tmp_path / "text").write_text("no database " * 100)
    with pytest.raises(sqlite3.DatabaseError):
        KeyFile(tmp_path / "text")


def test_without_the_package(keys: KeyFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is an extra: who has not installed it is told how."""
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers.aead", None)

    with pytest.raises(ImportError, match=r"pip install 'slotlog\[sealing\]'"):
        Sealer(keys)


async def _fill(data: Path, sealer: Sealer) -> None:
    settings = load_settings(data=data)
    log = open_log(settings.log_url, topic=settings.topic, partitions=1)
    await log.start()
    async with Producer(log, sealer=sealer) as producer:
        await producer.send("HSET", "user:1", "name", Personal("user:1", "Ann", b"name"), "visits", 1)
        await producer.exec([["RPUSH", "seen", Personal("user:1", "Ghent")], ["RPUSH", "seen", "plain"]])
        await producer.send("HSET", "user:2", "name", Personal("user:2", "Bo", b"name"))
    await log.close()


def _json(*words: object) -> Any:
    return json.loads(succeed(*words, "--json"))


def test_erased_from_log_history_snapshot_and_replay(tmp_path: Path, keys: KeyFile, sealer: Sealer) -> None:
    """No plain value is anywhere; after `slotlog erase` none can be opened. Digests and order are as before."""
    data, store = tmp_path / "data", tmp_path / "snapshots"
    data.mkdir()
    asyncio.run(_fill(data, sealer))
    succeed("replay", "--data", data, "--to", tmp_path / "state")
    succeed("snapshot", "--data", tmp_path / "state", "--to", store)
    before = _json("digest", "--data", tmp_path / "state")["digest"]

    def name_of(user: int) -> bytes:
        from base64 import b64decode

        found = _json("query", "--data", tmp_path / "state", "HGET", f"user:{user}", "name")
        return sealer.open(b64decode(found["base64"]), b"name")

    assert [b"Ann", b"Bo"] == [name_of(1), name_of(2)]
    found = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert [False, False, True] == [value in found for value in (b"Ann", b"Ghent", b"visits")]

    succeed("erase", "user:1", "--keys", tmp_path / "keys.sqlite3")

    with pytest.raises(ErasedError):
        name_of(1)
    assert b"Bo" == name_of(2)
    succeed("replay", "--data", data, "--to", tmp_path / "again")
    succeed("restore", "--from", store, "--to", tmp_path / "restored")
    assert {before} == {_json("digest", "--data", tmp_path / name)["digest"] for name in ("state", "again", "restored")}
    history = [json.loads(line) for line in succeed("history", "user:1", "--data", data, "--json").splitlines()]
    assert [["HSET", "user:1", "name"]] == [each["command"][:3] for each in history]
    assert 1 == run("erase", "user:1", "--keys", tmp_path / "keys.sqlite3").exit_code
    assert "no key store" in run("erase", "user:1", "--keys", tmp_path / "none").stderr
    assert {"erased": True} == _json("erase", "user:2", "--keys", tmp_path / "keys.sqlite3")


def test_a_producer_in_a_thread(tmp_path: Path, sealer: Sealer) -> None:
    """`SyncProducer` seals as well; without a sealer the argument is refused, and nothing is sent."""
    url = f"sqlite:///{tmp_path / 'log.sqlite3'}"
    with SyncProducer(lambda: open_log(url, topic="t", partitions=1), sealer=sealer) as producer:
        producer.send_and_wait("SET", "a", Personal("user:1", "Ann"))
    with (
        SyncProducer(lambda: open_log(url, topic="t", partitions=1)) as producer,
        pytest.raises(TypeError, match="with a sealer"),
    ):
        producer.send("SET", "a", Personal("user:1", "Ann"))
    assert b"Ann" not in (tmp_path / "log.sqlite3").read_bytes()


def test_a_file_that_is_no_key_store_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    """`slotlog erase` names it, whether it is a database, empty or something else, and makes nothing in it."""
    others = [tmp_path / name for name in ("text", "empty", "database")]
    others[0].write_bytes(b"no database at all\n" * 100)
    others[1].touch()
    with closing(sqlite3.connect(others[2])) as connection:
        connection.execute("CREATE TABLE others (id)")
    before = [path.read_bytes() for path in others]

    for path in others:
        refused = run("erase", "user:1", "--keys", path)
        assert (1, True) == (refused.exit_code, f"{path} cannot be used as a key store" in refused.stderr)

    assert before == [path.read_bytes() for path in others]
