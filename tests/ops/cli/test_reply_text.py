"""Replies as redis-cli prints them, and as JSON."""

from __future__ import annotations

from typing import Any

import pytest

from engine.errors import CommandError
from engine.values.replies import NIL_ARRAY, OK, Map, Pairs, Set
from ops.cli.reply_text import as_text
from ops.reply_json import as_json

CASES: list[tuple[Any, str, Any]] = [
    (None, "(nil)", None),
    (NIL_ARRAY, "(nil)", None),
    (OK, "OK", "OK"),
    (3, "(integer) 3", 3),
    (b'a"\n\xff', '"a\\"\\n\\xff"', {"base64": "YSIK/w=="}),
    (1.5, '"1.5"', 1.5),
    (float("inf"), '"inf"', "inf"),
    ([], "(empty array)", []),
    (Set([b"a"]), '1) "a"', ["a"]),
    (Map([(b"f", b"v")]), '1) "f"\n2) "v"', [["f", "v"]]),
    (Pairs([(b"m", 2.0)]), '1) "m"\n2) "2"', [["m", 2.0]]),
    ([1, [b"x", None]], '1) (integer) 1\n2) 1) "x"\n   2) (nil)', [1, ["x", None]]),
    ([CommandError("ERR no")], "1) (error) ERR no", [{"error": "ERR no"}]),
]


@pytest.mark.parametrize(("reply", "text", "json"), CASES)
def test_reply_is_printed_for_people_and_programs(reply: Any, text: str, json: Any) -> None:
    """Every kind of reply has redis-cli's lines and one JSON value."""
    assert (text, json) == (as_text(reply), as_json(reply))
