"""The history of a key on the page at `/`, in a real browser."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from slotlog.events import encode
from slotlog.log import Entry
from tests.ops.serving.pages.test_page import CONTRAST, MARKUP, OVERFLOW, address_of, append, looking, serving

ROWS = """
    Array.from(document.querySelectorAll('#line tbody tr'), (row) =>
        Array.from(row.cells, (cell) => cell.innerText.trim()))
"""


def events() -> list[Entry]:
    """What happens to a key; markup is among the values."""
    key = "{a}cart"
    steps: list[tuple[str, list[Any], dict[str, Any]]] = [
        ("HSET", [key, "apples", "2"], {"id": "order-1", "meta": {"who": "ann"}}),
        ("HINCRBY", [key, "apples", "x"], {}),
        ("EXEC", [["HSET", key, "note", MARKUP], ["PEXPIRE", key, "4000000000000"]], {}),
        ("GET", ["{a}other"], {}),
        ("DEL", [key], {}),
    ]
    return [Entry(1, None, encode(name, args, **fields)) for name, args, fields in steps]


async def test_a_key_has_a_line_of_time(tmp_path: Path) -> None:
    """Who types a key sees each event: when, who, what, what came of it, and the value before and after, as text."""
    data = tmp_path / "data"
    await append(data, events())
    with serving(data) as service:
        async with looking(service, tmp_path, width=375, height=812, dark=True) as tab:
            await tab.wait_until("!document.getElementById('history').hidden")
            asked = [url for url in tab.requests if url.endswith("/history")]
            await tab.evaluate("document.getElementById('history-key').value = '{a}cart'; 0")
            await tab.evaluate("document.querySelector('#history button').click(); 0")
            await tab.wait_until("document.querySelectorAll('#line tbody tr').length == 4")
            rows = await tab.evaluate(ROWS)
            elements = await tab.evaluate("document.querySelectorAll('#line img').length")
            beyond, contrast = await tab.evaluate(OVERFLOW), await tab.evaluate(CONTRAST)
            await tab.evaluate("document.getElementById('history-key').value = 'nothing'; 0")
            await tab.evaluate("document.querySelector('#history button').click(); 0")
            await tab.wait_until("document.getElementById('line-said').textContent.startsWith('No event')")
            complaints = list(tab.complaints)

    first, second, third, fourth = rows
    assert ["0", "1", "2", "4"] == [row[0] for row in rows]
    assert "HSET {a}cart apples 2\nid order-1 · [who ann]" == first[2]
    assert ("applied: 1", "not there\n→ hash [apples 2]") == (first[3], first[4])
    assert ("rejected: ERR value is not an integer or out of range", "as it was") == (
        second[3].replace("error ", ""),
        second[4],
    )
    assert MARKUP in third[4]
    assert ["", "→ not there"] == [fourth[4].partition("\n")[0][:0], fourth[4].partition("\n")[2]]
    assert ([], 0, []) == (asked, elements, complaints)
    assert ([], True) == (beyond, contrast >= 4.5)


def post(address: str, body: Any, **headers: str) -> tuple[int, Any]:
    """What the service answers to a question for a history."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"Content-Type": "application/json", **headers}
    request = urllib.request.Request(f"{address}history", data, headers)  # noqa: S310 - http
    try:
        with urllib.request.urlopen(request, timeout=60) as response:  # noqa: S310 - as above
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_who_may_ask(tmp_path: Path) -> None:
    """Not a foreign site: by a form, or by a name of its own; nor by a body that is none; not with another method."""
    with serving(tmp_path / "data") as service:
        address = address_of(service)
        good = post(address, {"key": "a"})
        foreign = post(address, {"key": "a"}, Host="evil.example")
        wrong = [
            post(address, body, **headers)[0]
            for body, headers in (
                ({"key": "a"}, {"Content-Type": "text/plain"}),
                (b"nothing", {}),
                ({"key": 5}, {}),
                ({"key": "a", "db": 16}, {}),
                ({"key": "a" * 4097}, {}),
                (["key"], {}),
            )
        ]

    assert (200, {"events": []}) == good
    assert (403, True) == (foreign[0], "open the page at 127.0.0.1" in foreign[1])
    assert [400] * 6 == wrong


@pytest.mark.parametrize(
    ("environment", "headers", "status"),
    [
        ({"SLOTLOG_REDIS__PASSWORD": "secret", "SLOTLOG_RESP": "127.0.0.1:0"}, {}, 403),
        ({"SLOTLOG_HTTP_PASSWORD": "secret"}, {}, 401),
        ({"SLOTLOG_HTTP_PASSWORD": "secret"}, {"Authorization": f"Basic {b64encode(b'slotlog:secret').decode()}"}, 200),
    ],
)
def test_passwords(tmp_path: Path, environment: dict[str, str], headers: dict[str, str], status: int) -> None:
    """Where Redis clients need a password, the page needs one, too; with its own it is given."""
    with serving(tmp_path / "data", 0, **environment) as service:
        assert status == post(address_of(service), {"key": "a"}, **headers)[0]
