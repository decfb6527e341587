"""Fixtures of imports."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import pytest

from engine.values.rdb.encode import seal
from engine.values.rdb.streams import STREAMS
from ops.importing.redis.server import Dumped, Server
from tests.ops.importing.rdb.files import MODULE_VALUES, module

MODULE_TYPE: Final = "ReJSON-RL"

_VALUE_OF_MODULE: Final = b"\x07"
_REDIS_7_2: Final = 11
_PAYLOAD: Final = seal([_VALUE_OF_MODULE, module(MODULE_TYPE), MODULE_VALUES], _REDIS_7_2)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory that is not there yet."""
    return tmp_path / "data"


@pytest.fixture
def module_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server with a module, which no oracle has: to TYPE and DUMP of a stream it answers as to a value of it."""
    type_of, begin_dumps = Server.type, Server.begin_dumps

    def kind(server: Server, db: int, name: bytes) -> str:
        found = type_of(server, db, name)
        return MODULE_TYPE if found == "stream" else found

    def begin(server: Server, db: int, names: Sequence[bytes]) -> Callable[[], tuple[int, list[Dumped]]]:
        answer = begin_dumps(server, db, names)

        def answered() -> tuple[int, list[Dumped]]:
            now_ms, keys = answer()
            return now_ms, [each._replace(payload=_PAYLOAD) if _is_stream(each) else each for each in keys]

        return answered

    monkeypatch.setattr(Server, "type", kind)
    monkeypatch.setattr(Server, "begin_dumps", begin)


def _is_stream(key: Dumped) -> bool:
    return key.payload is not None and key.payload[0] in STREAMS
