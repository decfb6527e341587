"""`slotlog import redis://…`: what a running server holds is in the log, whatever happens meanwhile."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from ops.importing.redis.ledger import Ledger, Seen
from tests.ops.importing.contents import fill, of_log, of_server, server
from tests.ops.verbs import run, succeed
from tests.real.oracle import Connection, Oracle, cluster_options
from tests.real.process import free_ports

PASSWORD = "canary-77aa"


def url(source: Oracle) -> str:
    """How an import names it."""
    return f"unix://{source.path}"


def imported(source: Oracle, data: Path, *options: object) -> dict[str, Any]:
    """The result of an import that has to be whole."""
    result: dict[str, Any] = json.loads(succeed("import", url(source), "--data", data, "--json", *options))
    return result


@pytest.fixture
def source(oracle: Connection) -> Iterator[Connection]:
    """The session's server, filled with keys of every kind, without libraries of functions."""
    oracle.call("FUNCTION", "FLUSH")
    fill(oracle)
    yield oracle
    oracle.call("FUNCTION", "FLUSH")


def test_every_type_comes_over(source: Connection, oracle_server: Oracle, data: Path, tmp_path: Path) -> None:
    """Strings, lists, sets, hashes and sorted sets of every encoding, with lives and databases, are the same after."""
    result = imported(oracle_server, data)

    assert of_server(source, (0, 3)) == of_log(tmp_path / "state", "--data", data)
    assert {"hash": 2, "list": 3, "set": 3, "string": 9, "zset": 2} == result["types"]
    assert (19, {}) == (result["events"], result["left_out"])
    assert ["pass 2 found no difference"] == [note.partition(":")[0] for note in result["notes"]]


def test_directory_of_the_data_is_its_owners_alone(source: Connection, oracle_server: Oracle, data: Path) -> None:
    """An import that makes the data directory makes it as the service does: the log in it is not for others."""
    imported(oracle_server, data, "--once")

    assert [0o700] * 3 == [path.stat().st_mode & 0o777 for path in (data, data / "imports", *data.glob("imports/*"))]


def test_second_run_brings_what_differs(source: Connection, oracle_server: Oracle, data: Path, tmp_path: Path) -> None:
    """A run after another appends nothing but what was changed, made, renamed or deleted since; each once."""
    imported(oracle_server, data)
    assert 0 == imported(oracle_server, data)["events"]
    source.pipeline(
        [
            ("SET", "text", "changed"),
            ("SET", "new", "v"),
            ("RENAME", "list", "renamed"),
            ("DEL", "set"),
            ("PERSIST", "dying"),
            ("PEXPIREAT", "hash", 9_200_000_000_000),
            ("PEXPIREAT", "large hash", 9_200_000_000_000),
        ]
    )
    result = imported(oracle_server, data)

    assert {"deleted": 2, "hash": 2, "list": 1, "string": 3} == result["types"]
    assert (8, 19) == (result["events"], result["earlier_keys"])
    assert of_server(source, (0, 3)) == of_log(tmp_path / "state", "--data", data)


def test_keys_of_slotlog_alone_are_left_alone(
    source: Connection, oracle_server: Oracle, data: Path, tmp_path: Path
) -> None:
    """A key that only slotlog has stays; one that both have is the source's."""
    lines = tmp_path / "events"
    lines.write_text('{"cmd":"SET","args":["own","1"]}\n{"cmd":"RPUSH","args":["text","1"]}\n')
    succeed("produce", lines, "--data", data)
    imported(oracle_server, data)

    expected = {**of_server(source, (0, 3)), (0, b"own"): ("string", b"1", None)}
    assert expected == of_log(tmp_path / "state", "--data", data)


def test_what_expired_meanwhile_needs_no_event(source: Connection, oracle_server: Oracle, data: Path) -> None:
    """A key that has died at the source by its own time dies in slotlog by it; one that was deleted needs an event."""
    imported(oracle_server, data)
    (file,) = (data / "imports").glob("*/keys.sqlite3")
    ledger = Ledger(file)
    ledger.keep(0, b"died long ago", Seen(b"digest", 1000))
    ledger.keep(0, b"deleted before its time", Seen(b"digest", 9_000_000_000_000))
    ledger.close()

    assert {"deleted": 1} == imported(oracle_server, data)["types"]
    assert 0 == imported(oracle_server, data)["events"]


@pytest.mark.usefixtures("module_values")
def test_what_is_not_held_is_listed(source: Connection, oracle_server: Oracle, data: Path, tmp_path: Path) -> None:
    """A module's values are counted, named and written to the report; the rest comes over; the exit code is 1."""
    source.call("XADD", b"value \xff", "*", "a", "b")
    source.call("FUNCTION", "LOAD", "#!lua name=mylib\nredis.register_function('f', function() return 1 end)")
    options = ("import", url(oracle_server), "--data", data, "--report", tmp_path / "report")
    result, again = run(*options), run(*options, "--json")
    report = [json.loads(line) for line in (tmp_path / "report").read_text().splitlines()]

    assert (1, 1) == (result.exit_code, again.exit_code)
    assert "  left out: ReJSON-RL 1\n" in result.stdout
    assert 'left out: db 0: ReJSON-RL "value \\xff": slotlog has no type ReJSON-RL\n' in result.stderr
    assert {"ReJSON-RL": 1} == json.loads(again.stdout)["left_out"]
    assert [(0, {"base64": "dmFsdWUg/w=="})] == [(line["db"], line["name"]) for line in report]
    assert of_server(source, (0, 3)) == of_log(tmp_path / "state", "--data", data)
    assert "mylib" in succeed("query", "--data", tmp_path / "state", "FUNCTION", "LIST")


@pytest.mark.usefixtures("module_values")
def test_key_that_becomes_a_value_of_a_module_goes(
    source: Connection, oracle_server: Oracle, data: Path, tmp_path: Path
) -> None:
    """Where a value of a module has taken a key's place, the key is deleted in slotlog, and the value is listed."""
    imported(oracle_server, data)
    source.call("DEL", "text")
    source.call("XADD", "text", "*", "a", "b")
    result = json.loads(run("import", url(oracle_server), "--data", data, "--json").stdout)

    assert ({"deleted": 1}, {"ReJSON-RL": 1}) == (result["types"], result["left_out"])
    assert of_server(source, (0, 3)) == of_log(tmp_path / "state", "--data", data)


def test_key_that_becomes_a_stream(source: Connection, oracle_server: Oracle, data: Path, tmp_path: Path) -> None:
    """Where a stream has taken a key's place, it does so in slotlog."""
    imported(oracle_server, data)
    source.call("DEL", "text")
    source.call("XADD", "text", "5-1", "field", "value")

    assert {"stream": 1} == imported(oracle_server, data)["types"]
    succeed("replay", "--to", tmp_path / "state", "--data", data)
    shown = succeed("query", "--data", tmp_path / "state", "XRANGE", "text", "-", "+")
    assert ["5-1", "field", "value"] == [line.split('"')[1] for line in shown.splitlines()]


def test_dry_run_appends_nothing(source: Connection, oracle_server: Oracle, data: Path) -> None:
    """--dry-run says what would come over, and makes neither a log nor a directory."""
    result = imported(oracle_server, data, "--dry-run")

    assert (19, 0, True) == (result["keys"], result["events"], result["dry_run"])
    assert not data.exists()


def test_databases_can_be_chosen(source: Connection, oracle_server: Oracle, data: Path, tmp_path: Path) -> None:
    """--db takes one database alone; the keys of others are neither taken nor, later, deleted."""
    imported(oracle_server, data)
    source.call("FLUSHALL")
    source.call("SET", "a", "1")
    result = imported(oracle_server, data, "--db", 0)

    assert {"deleted": 17, "string": 1} == result["types"]
    assert {(0, b"a"), (3, b"text"), (3, b"list")} == of_log(tmp_path / "state", "--data", data).keys()


def test_databases_beyond_the_log_are_refused(source: Connection, oracle_server: Oracle, data: Path) -> None:
    """With several partitions there is database 0 alone: a source with more is refused before anything is sent."""
    result = run("import", url(oracle_server), "--data", data, "--partitions", 2)

    assert (1, "") == (result.exit_code, result.stdout)
    assert "has keys in database 3, and slotlog has database 0 alone" in result.stderr
    assert not data.joinpath("log.sqlite3").exists()


def test_database_that_has_always_been_empty_is_no_emptied_source(
    source: Connection, oracle_server: Oracle, data: Path
) -> None:
    """A run for one database has nothing to say of keys that an earlier run has brought from others."""
    imported(oracle_server, data)

    assert 0 == imported(oracle_server, data, "--db", 7)["events"]


def test_emptied_source_deletes_nothing(source: Connection, oracle_server: Oracle, data: Path, tmp_path: Path) -> None:
    """A source that came back without its data is an error, and slotlog keeps what it has."""
    imported(oracle_server, data)
    before = of_server(source, (0, 3))
    source.call("FLUSHALL")
    result = run("import", url(oracle_server), "--data", data)

    assert 1 == result.exit_code
    assert "was it restarted without its data? Nothing was deleted" in result.stderr
    assert before == of_log(tmp_path / "state", "--data", data)


def test_source_that_came_back_with_few_keys_deletes_nothing(data: Path, tmp_path: Path) -> None:
    """A server that was started without its file, and written to since, is refused; with another progress it is not."""
    with server() as source:
        for start, count in ((0, 100), (100, 80)):
            connection = source.connect()
            connection.pipeline(("SET", f"key:{number}", "v") for number in range(start, start + count))
            connection.close()
            result = run("import", url(source), "--data", data)
            source.kill()
            source.start()
        (directory,) = (data / "imports").iterdir()
        shutil.rmtree(directory)
        connection = source.connect()
        connection.call("SET", "key:180", "v")
        connection.close()
        again = imported(source, data)

    assert 1 == result.exit_code
    assert "has 80 keys, and 100 that live for ever have come from it: was it restarted" in result.stderr
    assert f"remove {directory} to import from the start" in result.stderr
    assert {"string": 1} == again["types"]
    assert 101 == len(of_log(tmp_path / "state", "--data", data))


@pytest.mark.parametrize(
    ("address", "password", "said"),
    [
        ("unix://{path}", "", "wants a password: give it in REDISCLI_AUTH"),
        ("unix://{path}", "canary-wrong", "refuses user or password"),
        ("unix://:canary-wrong@{path}", "", "refuses user or password"),
        ("unix://nobody:canary-wrong@{path}", PASSWORD, "refuses user or password"),
    ],
)
def test_password_that_is_missing_or_wrong_is_said(
    address: str, password: str, said: str, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A source with a password says so in one line, with what to do, and no password is in it."""
    monkeypatch.setenv("REDISCLI_AUTH", password)
    with server(("--requirepass", PASSWORD)) as source:
        words = ("import", address.format(path=source.path), "--data", data)
        result, as_json = run(*words), run(*words, "--json")

    assert (1, "", 1) == (result.exit_code, result.stdout, result.stderr.count("\n"))
    assert said in result.stderr
    assert said in json.loads(as_json.stdout)["error"]
    assert "canary" not in result.output + as_json.output
    assert not data.joinpath("log.sqlite3").exists()


def test_password_comes_from_the_environment_or_the_url(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """REDISCLI_AUTH and the URL both let it in, and no output or file has the password."""
    with server(("--requirepass", PASSWORD)) as source:
        connection = source.connect()
        connection.call("AUTH", PASSWORD)
        connection.call("SET", "a", "1")
        by_url = run("import", f"unix://:{PASSWORD}@{source.path}", "--data", data)
        monkeypatch.setenv("REDISCLI_AUTH", PASSWORD)
        by_variable = run("import", f"unix://{source.path}", "--data", data)
        by_option = run("import", f"unix://{source.path}?password={PASSWORD}", "--data", data)
        connection.close()

    assert (0, 0) == (by_url.exit_code, by_variable.exit_code)
    assert "1 key in 1 event" in by_url.stdout
    assert "0 keys in 0 events, 1 by an earlier run" in by_variable.stdout
    assert "0 keys in 0 events, 1 by an earlier run" in by_option.stdout
    assert PASSWORD not in by_url.output + by_variable.output + by_option.output
    assert [] == [path for path in tmp_path.rglob("*") if PASSWORD in path.name]
    assert [] == [path for path in tmp_path.rglob("*") if path.is_file() and PASSWORD.encode() in path.read_bytes()]


def test_tls_needs_the_right_authority(data: Path, tmp_path: Path) -> None:
    """rediss:// reads a server over TLS whose certificate is signed by the authority in the URL, and no other one."""
    authority = trustme.CA()
    leaf = authority.issue_cert("localhost")
    cert, key, ca, other = (tmp_path / name for name in ("cert.pem", "key.pem", "ca.pem", "other.pem"))
    leaf.cert_chain_pems[0].write_to_path(cert)
    leaf.private_key_pem.write_to_path(key)
    authority.cert_pem.write_to_path(ca)
    trustme.CA().cert_pem.write_to_path(other)
    (port,) = free_ports(1)
    tls = ("--tls-port", port, "--tls-cert-file", cert, "--tls-key-file", key, "--tls-auth-clients", "no")
    with server([*map(str, tls), "--tls-ca-cert-file", str(ca)], "redis-server") as source:
        connection = source.connect()
        connection.call("SET", "a", "1")
        connection.close()
        address = f"rediss://localhost:{port}"
        said = succeed("import", f"{address}?ssl_ca_certs={ca}", "--data", data)
        refused = run("import", f"{address}?ssl_ca_certs={other}", "--data", data)

    assert f"{address}: 1 key in 1 event\n" in said
    assert f"slotlog: {address} does not answer: " in refused.stderr
    assert "CERTIFICATE_VERIFY_FAILED" in refused.stderr
    assert "name the file of the authority that signed its certificate: ?ssl_ca_certs=FILE" in refused.stderr


@pytest.mark.parametrize("large_bytes", [0, 1 << 20])
def test_rights_of_the_page_suffice(
    large_bytes: int, source: Connection, oracle_server: Oracle, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user that docs/moving-redis.md makes can import every key, in pieces or not; one with fewer is told."""
    monkeypatch.setattr("ops.importing.redis.source.LARGE_BYTES", large_bytes)
    monkeypatch.setenv("REDISCLI_AUTH", "secret")
    page = " ".join((Path(__file__).parents[3] / "docs" / "moving-redis.md").read_text().split())
    rule = page.partition("`ACL SETUSER ")[2].partition("`")[0]
    source.call("ACL", "SETUSER", *rule.split())
    address = f"unix://me@{oracle_server.path}"
    try:
        said = json.loads(succeed("import", address, "--data", data, "--json"))
        source.call("ACL", "SETUSER", "me", "-dump")
        refused = run("import", address, "--data", data)
    finally:
        source.call("ACL", "DELUSER", "me")

    assert 19 == said["keys"]
    assert large_bytes == 0 or "gives this user too few rights" in refused.stderr


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("redis://127.0.0.1:1", "redis://127.0.0.1:1 does not answer"),
        ("redis://:canary@127.0.0.1:nonsense", "redis://127.0.0.1:nonsense is no URL of a server"),
        ("redis://127.0.0.1:1?password=canary&nonsense=1", "redis://127.0.0.1:1 is no URL of a server"),
        ("redis://127.0.0.1:1?password=x@canary", "redis://… is no URL of a server: write ? as %3F and @ as %40"),
        ("redis://:canary?y@127.0.0.1:1", "redis://… is no URL of a server: write ? as %3F and @ as %40"),
        ("redis://127.0.0.1:1/3", "redis://127.0.0.1:1/3: its URL names a database: leave that out, and say --db 3"),
        ("unix:///nowhere?db=0", "unix:///nowhere: its URL names a database: leave that out, and say --db 0"),
        ("http://host?password=canary", "http://host is no source of an import"),
        ("http://me:canary@host/", "http://host/ is no source of an import. A source is redis://HOST:PORT"),
        ("nosuchfile", "nosuchfile: No such file or directory"),
    ],
)
def test_source_that_is_none_is_said(address: str, said: str, data: Path) -> None:
    """An address where nobody answers, or which is none, is one clear line without what may be a password."""
    result = run("import", address, "--data", data)

    assert (1, "", 1) == (result.exit_code, result.stdout, result.stderr.count("\n"))
    assert said in result.stderr
    assert "canary" not in result.stderr


@pytest.mark.parametrize(
    ("source", "layout", "said"),
    [
        ("redis://me:canary@127.0.0.1:1", "kvrocks", "leave it out to import from redis://127.0.0.1:1"),
        (".", "kvrok", "--layout kvrok is none of an import; it is kvrocks, kvrocks-cluster or neokv1"),
        (".", "neokv", "A state of slotlog is none: its log has the events"),
    ],
)
def test_layout_that_no_source_has_is_said(source: str, layout: str, said: str, data: Path) -> None:
    """A layout that does not exist, or suits no source, is told apart from a source that does not."""
    result = run("import", source, "--layout", layout, "--data", data)

    assert (1, "", 1) == (result.exit_code, result.stdout, result.stderr.count("\n"))
    assert said in result.stderr
    assert "canary" not in result.stderr


def test_node_of_a_redis_cluster_is_refused(data: Path) -> None:
    """A node of a Redis Cluster has a part of the keys: it is refused, with the way that there is."""
    with server(cluster_options(*free_ports(1))) as source:
        result = run("import", url(source), "--data", data)

    assert 1 == result.exit_code
    assert "is a node of a Redis Cluster, which is not supported: save an RDB file on each master" in result.stderr


def test_server_without_pexpiretime(data: Path, tmp_path: Path) -> None:
    """Of a server before 7.0, lives are reckoned from PTTL: they are right to a second, and no pass takes them anew."""
    with server(("--rename-command", "PEXPIRETIME", "")) as source:
        connection = source.connect()
        connection.call("SET", "a", "1", "PXAT", 9_000_000_000_000)
        first, second = imported(source, data), imported(source, data)
        connection.close()
    ((kind, value, expire_ms),) = of_log(tmp_path / "state", "--data", data).values()

    assert (1, 0) == (first["events"], second["events"])
    assert ("string", b"1") == (kind, value)
    assert 1000 > abs((expire_ms or 0) - 9_000_000_000_000)
