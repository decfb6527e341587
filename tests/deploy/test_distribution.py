"""Installs the wheel into empty environments: a client with two dependencies, or the whole server."""

from __future__ import annotations

import json
import os
import re
import shutil
import tarfile
import zipfile
from pathlib import Path
from typing import Final
from uuid import uuid4

import pytest

from ops.version import VERSION
from tests.deploy.environments import PACKAGES, Built, Environment, build, build_wheel, sources

COMPILED: Final = r"(engine/native/_hot|slotlog/log/kafka/_batches)\.[\w-]+\.so"

SERVICE: Final = """
import asyncio, json, sys
import engine, ingest, ops, resp
from slotlog import EventError, Producer, SyncProducer, open_log

url, topic = sys.argv[1:]

async def main():
    log = open_log(url, topic=topic, partitions=1)
    await log.start()
    async with Producer(log) as producer:
        await producer.send("HSET", "user:1", "name", "Ann", id="signup-1")
        await producer.exec([["INCR", "visits"], ["EXPIRE", "visits", 9_000_000]])
        try:
            await producer.send("HSET", "user:1")
        except EventError as error:
            refused = str(error)
        positions = await producer.send_and_wait("ZUNIONSTORE", "all", 2, "{all}1", "{all}2", "WEIGHTS", 1.5, 2)
    await log.close()
    return refused, positions[0].offset

refused, offset = asyncio.run(main())
with SyncProducer(lambda: open_log(url, topic=topic, partitions=1)) as producer:
    producer.send_and_wait("INCR", "visits")
own = [package.OWNER for package in (engine, ingest, ops, resp)]
installed = [name for name, module in sys.modules.items() if "site-packages" in str(getattr(module, "__file__", ""))]
loaded = sorted({name.partition(".")[0] for name in installed})
print(json.dumps({"refused": refused, "offset": offset, "own": own, "loaded": loaded}))
"""
"""A service that has packages of the server's names in its own tree."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The sdist, and the wheel that is made from it."""
    return build(tmp_path_factory.mktemp("built"))


@pytest.fixture(scope="module")
def client(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """What `pip install slotlog` gives."""
    return Environment(tmp_path_factory.mktemp("client"), built.wheel)


@pytest.fixture(scope="module")
def server(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """What `pip install 'slotlog[server]'` gives."""
    return Environment(tmp_path_factory.mktemp("server"), built.wheel, "server")


@pytest.fixture
def service(tmp_path: Path) -> Path:
    """The program of a service."""
    for name in ("engine", "ingest", "ops", "resp"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text('OWNER = "the service"\n')
    (tmp_path / "service.py").write_text(SERVICE)
    return tmp_path / "service.py"


def test_every_file_is_in_wheel_and_sdist(built: Built) -> None:
    """Both hold each file of the packages, data and `py.typed` included, and the wheel nothing of tests or tools.

    What is compiled is in the wheel in the place of its sources.
    """
    expected = {str(path) for path in sources()}
    compiled = {name for name in expected if name.endswith((".c", ".h"))}
    with zipfile.ZipFile(built.wheel) as archive:
        in_wheel = {name for name in archive.namelist() if ".dist-info/" not in name}
    library = {name for name in in_wheel if re.fullmatch(COMPILED, name)}
    with tarfile.open(built.sdist) as archive:
        in_sdist = {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}

    assert {f"{name}/py.typed" for name in PACKAGES} <= expected
    assert 2 == len(library)
    assert expected - compiled == in_wheel - library
    assert set() == expected - in_sdist
    assert {"CHANGELOG.md", "LICENSE", "README.md", "pyproject.toml"} <= in_sdist


def test_it_is_built_without_a_compiler(built: Built, tmp_path: Path) -> None:
    """Where there is none the sdist gives a wheel all the same, without the part in C, and says so."""
    shutil.unpack_archive(built.sdist, tmp_path)
    (unpacked,) = (path for path in tmp_path.iterdir() if path.is_dir())
    said, wheel = build_wheel(unpacked, tmp_path, {**os.environ, "CC": "/no/compiler"})
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()

    assert "engine.native._hot" in said
    assert "slotlog.log.kafka._batches" in said
    assert "engine/native/__init__.py" in names
    assert [] == [name for name in names if name.endswith(".so")]


def test_a_client_gets_two_dependencies(client: Environment) -> None:
    """Without the extra, an environment has msgpack, aiokafka and what that needs, and nothing of the server's."""
    assert ["aiokafka", "async-timeout", "cramjam", "msgpack", "packaging", "typing-extensions"] == client.distributions


@pytest.mark.parametrize("kind", ["sqlite", "kafka"])
def test_a_service_sends_with_the_client_alone(
    request: pytest.FixtureRequest, client: Environment, server: Environment, service: Path, tmp_path: Path, kind: str
) -> None:
    """A service whose packages are called as the server's sends events to either log, and the server applies them."""
    kafka = kind == "kafka"
    url = f"kafka://{request.getfixturevalue('kafka_bootstrap')}" if kafka else "sqlite:///log.sqlite3"
    topic = f"client-{uuid4().hex}"
    done = client.run("python", service, url, topic, cwd=tmp_path)
    assert (0, "") == (done.returncode, re.sub(r"topic_created .*\n", "", done.stderr))
    said = json.loads(done.stdout)
    where = ["--log", url, "--topic", topic, "--data", "none"]
    replayed = server.run("slotlog", "replay", *where, "--to", "state", "--json", cwd=tmp_path)
    visits = server.run("slotlog", "query", "--topic", topic, "--data", "state", "GET", "visits", cwd=tmp_path)

    assert "ERR wrong number of arguments for 'hset' command" == said["refused"]
    assert 2 == said["offset"]
    assert ["the service"] * 4 == said["own"]
    assert {"msgpack", "slotlog"} <= set(said["loaded"])
    assert set() == set(said["loaded"]) & set(PACKAGES) - {"slotlog"}
    assert 4 == json.loads(replayed.stdout)["partitions"][0]["next_offset"]
    assert '"2"\n' == visits.stdout


def test_a_client_has_no_command_line(client: Environment, tmp_path: Path) -> None:
    """Without the server's packages the console script fails, and says what to install."""
    done = client.run("slotlog", "serve", cwd=tmp_path)

    assert (1, "") == (done.returncode, done.stdout)
    assert re.fullmatch(r"slotlog: \w+ is not installed\. .*: pip install 'slotlog\[server\]'\n", done.stderr)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_demo_runs_from_the_wheel(server: Environment, tmp_path: Path) -> None:
    """In an environment with the server and nothing else, away from the checkout, `slotlog demo` finds all right."""
    version = server.run("slotlog", "version", "--json", cwd=tmp_path)
    demo = server.run("slotlog", "demo", cwd=tmp_path)

    assert VERSION == json.loads(version.stdout)["slotlog"]
    assert 0 == demo.returncode, demo.stderr
    assert re.search(r"checked +(\d+) of \1 reads of the state agree with the table of flights", demo.stdout)
