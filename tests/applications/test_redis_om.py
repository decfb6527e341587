"""Redis OM without modules."""

from __future__ import annotations

from typing import Any

from tests.applications.conftest import Server
from tests.applications.programs import seen_by

SEEN: dict[str, Any] = {
    "one": {"get": ["Ada", 36, "2026-01-02", None], "update": 37, "expire": True, "delete": [1, 0], "deleted": True},
    "many": {"ages": [0, 1, 2, 3, 4, 5], "deleted": 6, "left": []},
}


def test_models(server: Server) -> None:
    """Models in hashes are saved, read, changed, listed and deleted, one by one, many at once and in a transaction."""
    assert SEEN == seen_by("redis_om_models", server.url(0))
