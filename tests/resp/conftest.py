"""A secured server, which the tests of a module share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import trustme

from tests.resp.secured import Secured, fully_secured


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    """Who signs the certificates of the secured server and of its clients."""
    return trustme.CA()


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory, authority: trustme.CA) -> Iterator[Secured]:
    """A server with a password, users in a file, and TLS."""
    with fully_secured(tmp_path_factory.mktemp("secured"), authority) as server:
        yield server
