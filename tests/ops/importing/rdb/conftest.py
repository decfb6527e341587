"""Servers that write and load the files."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real.oracle import Oracle


@pytest.fixture(scope="package")
def servers() -> Iterator[dict[str, Oracle]]:
    """valkey-server 9 and Debian's redis-server 7, by name. The path of a Unix socket has to be short."""
    with (
        tempfile.TemporaryDirectory(prefix="valkey-") as valkey_directory,
        tempfile.TemporaryDirectory(prefix="redis-") as redis_directory,
        Oracle(Path(valkey_directory)) as valkey,
        Oracle(Path(redis_directory), binary="redis-server") as redis,
    ):
        yield {"valkey": valkey, "redis": redis}
