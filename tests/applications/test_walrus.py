"""Walrus: models, containers and tools."""

from __future__ import annotations

from typing import Any

from tests.applications.conftest import Server
from tests.applications.programs import seen_by

WORKS: dict[str, Any] = {
    "models": {
        "count": 3,
        "load": ["Ada", 36, True, "Ada writes programs"],
        "set": ["Ada", "person"],
        "list": ["first"],
        "hash": "36",
        "zset": 36.0,
        "equal": "Cyd",
        "not_equal": ["Bob"],
        "search": ["Bob"],
        "numbers": [1, 2, 3],
        "saved": ["Ada"],
        "incr": 42,
        "deleted": ["Ada", "Bob"],
        "ordered": ["Bob", "Ada"],
    },
    "containers": {
        "list": ["b", ["b", "c"], 3],
        "hash": {"name": "Ada", "born": "1815"},
        "zset": [["first", 1.0], ["second", 2.0]],
        "intersection": ["b"],
        "union": ["a", "b", "c"],
        "difference": ["a"],
    },
    "tools": {
        "cache": [{"value": 1}, 1, None],
        "rate_limit": [False, False, True],
        "counter": [1, 6, 6],
        "autocomplete": ["programs in c", "python programming"],
        "graph": ["Ada"],
    },
    "scripts": {
        "range": ["Ada"],
        "between": ["Bob"],
        "lock": [True, False, True, True],
        "array": ["y", "x", 2],
        "rate_limit_lua": [False, False, True],
        "cas": [False, True],
    },
}
STREAMS: dict[str, Any] = {"stream": [False, "added"]}


def test_models(server: Server) -> None:
    """Models are found by equality and by words; containers, tools and streams work."""
    assert {**WORKS, "streams": STREAMS} == seen_by("walrus_models", server.url(6))
