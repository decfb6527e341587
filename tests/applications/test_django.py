"""Django's own Redis cache backend."""

from __future__ import annotations

from typing import Any

from tests.applications.conftest import Server
from tests.applications.programs import seen_by

SEEN: dict[str, Any] = {
    "values": {
        "get": True,
        "missing": "default",
        "add": [True, False, 1],
        "has_key": [True, False],
        "get_or_set": [5, 5],
        "versions": [None, "second"],
        "incr_version": [3, "second"],
        "delete": [True, False, None],
    },
    "counters": {"incr": [2, 12, 11], "missing": "Key 'site:1:missing' not found."},
    "many": {"set_many": [], "get_many": {"one": 1, "two": "zwei"}, "delete_many": {"two": "zwei"}},
    "timeouts": {
        "never": None,
        "touch": [True, False],
        "touch_for_ever": True,
        "touched": "value",
        "clear": True,
        "cleared": None,
    },
    "sessions": {"user": 7, "after flush": None},
}


def test_cache(server: Server) -> None:
    """Every method of Django's cache does what it says, and so do sessions that are held in the cache."""
    assert SEEN == seen_by("django_cache", server.url(1))
