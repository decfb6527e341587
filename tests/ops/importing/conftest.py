"""Fixtures of imports."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.model import STREAM
from engine.values.rdb.content import Content
from engine.values.rdb.decode import decode
from engine.values.rdb.errors import UnsupportedError
from ops.importing.redis import source as redis_source
from ops.importing.redis.server import Server

MODULE_TYPE = "ReJSON-RL"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory that is not there yet."""
    return tmp_path / "data"


@pytest.fixture
def module_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """To an import a stream is as a value of a module, which the oracle has not: TYPE and DUMP say what is unknown."""
    type_of = Server.type

    def kind(server: Server, db: int, name: bytes) -> str:
        found = type_of(server, db, name)
        return MODULE_TYPE if found == "stream" else found

    def decoded(payload: bytes) -> Content:
        content = decode(payload)
        if content.type == STREAM:
            raise UnsupportedError("a value of a module")
        return content

    monkeypatch.setattr(Server, "type", kind)
    monkeypatch.setattr(redis_source, "decode", decoded)
