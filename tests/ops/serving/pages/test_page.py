"""The page at `/` and `/status`, in a real browser and as documents: right numbers, nothing foreign, nothing secret."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.request import urlopen

import pytest

from engine.errors import SYNTAX
from engine.tables.system import RULES
from ops.reasons import shown_reason
from slotlog.events import encode
from slotlog.log import Entry, open_log
from slotlog.shared.slots import partition_of, slot
from tests.faults.service import ServiceProcess
from tests.ops.verbs import get, succeed, wait_for_offset, wait_until
from tests.real.browser import Browser, browser
from tests.real.process import free_ports
from tests.wire.client import Client

ROOT: Final = Path(__file__).parents[4]
PARTITIONS: Final = 2
KEYS: Final = [
    next(b"key:%d" % n for n in range(99) if partition_of(slot(b"key:%d" % n), PARTITIONS) == partition)
    for partition in range(PARTITIONS)
]
MARKUP: Final = "<img src=x onerror=document.title='caught'>"
CANARY: Final = "canary-77aa"
FOREIGN: Final = [
    Entry(1, None, b"\xc1"),
    Entry(1, None, encode(MARKUP, [])),
    Entry(1, None, encode(f"SET {CANARY} {CANARY}", [])),
    Entry(1, None, encode("GETX", [CANARY])),
    Entry(1, CANARY.encode(), encode("SET", [KEYS[0], CANARY])),
    Entry(1, None, b"\x84" + encode("SET", [KEYS[1], "v"])[1:] + b"\xab" + CANARY.encode() + b"\x01"),
]
CELLS: Final = """
    Array.from(document.querySelectorAll('#partitions tbody tr'), (row) =>
        Array.from(row.cells, (cell) => cell.textContent.trim()))
"""
UNDER_WAY: Final = """
    fetch('/status').then((a) => a.json()).then((status) => {
        const [first, second] = status.partitions;
        first.snapshots.newest_offset ??= first.snapshots.trimmable_offsets ??= 123456789012;
        first.snapshots.running = { what: 'restore', done_bytes: 3 << 20, total_bytes: 12 << 20, eta_seconds: 9 };
        second.snapshots = { ...second.snapshots, newest_verified: false, failing: true };
        second.snapshots.running = { what: 'upload', done_bytes: 1 << 20, total_bytes: 4 << 20, eta_seconds: null };
        const text = JSON.stringify(status); window.fetch = async () => new Response(text); return 0; })
"""
OVERFLOW: Final = """
    Array.from(document.querySelectorAll('body *')).filter((element) =>
        element.getBoundingClientRect().right > innerWidth + 1 && getComputedStyle(element).position !== 'absolute'
        && !element.closest('thead')).map((element) => element.outerHTML.slice(0, 80))
"""
CONTRAST: Final = """
    (() => {
        const parse = (text) => text.match(/[0-9.]+/g).map(Number);
        const light = (rgb) => rgb.slice(0, 3).map((c) => c / 255)
            .map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
            .reduce((sum, c, at) => sum + c * [0.2126, 0.7152, 0.0722][at], 0);
        const behind = (element) => {
            for (let at = element; at; at = at.parentElement) {
                const rgb = parse(getComputedStyle(at).backgroundColor);
                if (rgb.length < 4 || rgb[3] > 0) return rgb;
            }
            return [255, 255, 255];
        };
        const texts = Array.from(document.querySelectorAll('body *')).filter((element) =>
            element.checkVisibility()
            && Array.from(element.childNodes).some((node) => node.nodeType === 3 && node.data.trim()));
        return Math.min(...texts.map((element) => {
            const [a, b] = [light(parse(getComputedStyle(element).color)), light(behind(element))];
            return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        }));
    })()
"""


async def append(data: Path, entries: list[Entry]) -> None:
    """Put records into the service's log."""
    log = open_log(f"sqlite:///{data / 'log.sqlite3'}", topic="board", partitions=PARTITIONS)
    await log.start()
    await log.append(entries)
    await log.close()


def incr(partition: int, count: int) -> list[Entry]:
    """Records that count up a key of the partition."""
    return [Entry(partition, slot(KEYS[partition]).to_bytes(2, "big"), encode("INCR", [KEYS[partition]]))] * count


@contextmanager
def serving(data: Path, port: int = 0, **environment: str) -> Iterator[ServiceProcess]:
    """A service of two partitions; its page is at a port that the system chooses, unless one is given."""
    options = ["--data", str(data), "--topic", "board", "--partitions", str(PARTITIONS)]
    options += ["--http", f"127.0.0.1:{port}"]
    with ServiceProcess(options, environment) as service:
        service.wait_for("started")
        yield service


def address_of(service: ServiceProcess) -> str:
    """Where its page is."""
    port = next(line["port"] for line in service.seen if line["event"] == "http")
    return f"http://127.0.0.1:{port}/"


@asynccontextmanager
async def looking(
    service: ServiceProcess, directory: Path, rows: int = PARTITIONS, **window: Any
) -> AsyncIterator[Browser]:
    """A browser that shows the service's page, drawn once."""
    profile = directory / "browser"
    profile.mkdir()
    async with browser(profile) as tab:
        await tab.open(address_of(service), **window)
        await tab.wait_until(f"document.querySelectorAll('#partitions tbody tr').length == {rows}")
        yield tab


async def test_numbers_are_there_and_move(tmp_path: Path) -> None:
    """Position, lag, throughput, disk and keys of each partition are drawn, and follow the load by themselves.

    No complaint of the browser's, and nothing asked of anybody but the service.
    """
    data = tmp_path / "data"
    await append(data, incr(0, 7) + incr(1, 3))
    with serving(data) as service:
        await asyncio.to_thread(wait_for_offset, service, 7, 0)
        await asyncio.to_thread(wait_for_offset, service, 3, 1)
        async with looking(service, tmp_path) as tab:
            await tab.wait_until("document.getElementById('state').textContent == 'ready'")
            await tab.wait_until("document.querySelector('#tile-lag b').textContent == '0'")
            before = await tab.evaluate(CELLS)
            await append(data, incr(0, 5000))
            await tab.wait_until("document.querySelector('#partitions tbody td.number').textContent == '5,007'")
            await tab.wait_until("document.querySelectorAll('.line[d*=L]').length == 11")
            rate = await tab.evaluate("document.querySelector('#tile-rate small').textContent")
            requests, complaints = set(tab.requests), list(tab.complaints)
        address = address_of(service)

    assert [["0", "running", "7", "0"], ["1", "running", "3", "0"]] == [row[:4] for row in before]
    assert [["1", "0", "0"]] * 2 == [row[6:] for row in before]
    assert [True, True] == [bool(re.fullmatch(r"[\d.]+ (B|KiB|MiB)", row[5])) for row in before]
    assert re.fullmatch(r"highest [\d,.]+/s", rate)
    assert rate != "highest 0/s"
    assert [] == complaints
    assert {address + path for path in ("", "page.css", "page.js", "history.js", "icon.svg", "status")} == requests


async def test_trouble_is_told_and_foreign_text_stays_text(tmp_path: Path) -> None:
    """A stopped partition is named with its reason, dead letters are listed, and markup in them is shown, not run."""
    data = tmp_path / "data"
    await append(data, [*FOREIGN, *incr(0, 2), Entry(0, None, encode("RULES", [RULES + 1]))])
    field = b"\x84" + encode("SET", [KEYS[1], "v"])[1:] + b"\xa3" + b"<b>" + b"\x01"
    await append(data, [Entry(1, None, field)])
    with serving(data) as service:
        await asyncio.to_thread(wait_for_offset, service, 1 + len(FOREIGN), 1)
        async with looking(service, tmp_path) as tab:
            await tab.wait_until("document.querySelectorAll('#letters tbody tr').length == 7")
            await tab.wait_until("!document.getElementById('trouble').hidden")
            await tab.wait_until("document.querySelector('#troubles li').textContent.includes('stopped')")
            troubles = await tab.evaluate("document.getElementById('troubles').textContent")
            state = await tab.evaluate("document.getElementById('state').textContent")
            rows = await tab.evaluate("Array.from(document.querySelectorAll('#letters tbody tr'), (r) => r.innerText)")
            elements = await tab.evaluate("document.querySelectorAll('#letters img, #letters b').length")
            # What a service of another version might say: the page trusts no reason.
            await tab.evaluate(
                "fetch('/status').then((a) => a.json()).then((status) => {"
                "status.dead_letters.latest[0].reason = status.partitions[0].reason = status.topic = "
                + repr(MARKUP)
                + ";"
                "const text = JSON.stringify(status); window.fetch = async () => new Response(text); return 0; })"
            )
            await tab.wait_until(f"document.getElementById('topic').textContent == {json.dumps(MARKUP)}")
            planted = await tab.evaluate("document.querySelectorAll('main img, header img').length")
            first = await tab.evaluate("document.querySelector('#letters tbody td:nth-child(3)').textContent")
            trouble = await tab.evaluate("document.getElementById('troubles').textContent")
            title = await tab.evaluate("document.title")
            complaints = list(tab.complaints)

    assert "not ready" == state
    assert (
        "Partition 0 is stopped: offset 2 (RULES) cannot be applied: UnknownRulesError; /readyz has the whole reason"
        in (troubles)
    )
    assert ["1 / 6", "1 / 5"] == [row.split("\t")[0].strip() for row in rows[:2]]
    assert "ERR unknown command 'GETX'" in "".join(rows)
    assert "the value is not msgpack" in "".join(rows)
    assert (0, 1) == (elements, planted)  # the one is the page's own icon
    assert MARKUP == first
    assert MARKUP in trouble
    assert "caught" != title
    assert [] == complaints


async def test_it_says_when_nobody_answers(tmp_path: Path) -> None:
    """When the service is gone the page says so and of when its numbers are; when it is back, that is gone too."""
    (port,) = free_ports(1)
    with serving(tmp_path / "data", port) as service:
        async with looking(service, tmp_path) as tab:
            assert 0 == await asyncio.to_thread(service.terminate)
            await tab.wait_until("document.body.dataset.state == 'silent'")
            said = await tab.evaluate("document.getElementById('silence').innerText")
            role = await tab.evaluate("document.getElementById('silence').getAttribute('role')")
            with serving(tmp_path / "data", port):
                await tab.wait_until("document.getElementById('silence').hidden")
                await tab.wait_until("document.getElementById('state').textContent == 'ready'")

    assert re.match(r"The service does not answer \(.*\)\. What stands here is of \d\d:\d\d:\d\d\.", said)
    assert "alert" == role


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
async def test_phone_and_contrast(dark: bool, tmp_path: Path) -> None:
    """At 375 pixels nothing lies beyond the right edge; all text has WCAG's contrast of 4.5 in both colour schemes."""
    data = tmp_path / "data"
    await append(data, [*FOREIGN, *incr(0, 2), Entry(0, None, encode("RULES", [RULES + 1]))])
    with serving(data, SLOTLOG_SNAPSHOTS__URL=str(tmp_path / "store")) as service:
        async with looking(service, tmp_path, width=375, height=812, dark=dark) as tab:
            await tab.wait_until("!document.getElementById('kept').hidden")
            await tab.evaluate(UNDER_WAY)
            await tab.wait_until("document.querySelector('#snapshots tbody').textContent.includes('being uploaded')")
            await tab.wait_until("document.querySelectorAll('#letters tbody tr').length == 6")
            await tab.wait_until("!document.getElementById('trouble').hidden")
            width = await tab.evaluate("document.documentElement.scrollWidth")
            beyond = await tab.evaluate(OVERFLOW)
            page = await tab.evaluate("getComputedStyle(document.body).backgroundColor")
            contrast = await tab.evaluate(CONTRAST)
            moving = await tab.evaluate("document.getAnimations().length")
            named = await tab.evaluate(
                "Array.from(document.querySelectorAll('table'), (t) => t.querySelectorAll('th[scope=col]').length)"
            )

    assert (375, []) == (width, beyond)
    assert ("rgb(19, 22, 24)" if dark else "rgb(247, 247, 245)") == page
    assert contrast >= 4.5
    assert (0, [9, 7, 4, 5]) == (moving, named)


async def test_document_has_what_the_page_names_and_no_secret(tmp_path: Path) -> None:
    """`/status` has the fields that docs/operations.md names; no key, value, id or client's address is in it."""
    data = tmp_path / "data"
    await append(data, FOREIGN)
    with serving(data, SLOTLOG_RESP="127.0.0.1:0") as service:
        port = next(line["port"] for line in service.seen if line["event"] == "resp")
        client = await Client.connect(("127.0.0.1", port))
        await client.call("CLIENT", "SETNAME", CANARY)
        local = client.call("CLIENT", "INFO")
        address = re.search(rb"addr=(\S+)", bytes(await local))
        assert address is not None
        await client.call("SET", KEYS[0], CANARY)
        await client.call("RPUSH", b"{" + KEYS[0] + b"}" + CANARY.encode(), CANARY)
        await asyncio.to_thread(wait_until, lambda: len(latest(service)) == len(FOREIGN), "the letters")
        status = get(service, "/status")
        client.close()
    section = (ROOT / "docs" / "operations.md").read_text().split("## The page")[1].split("\n## ")[0]
    documented = set(re.findall(r"`([a-z0-9_]+)`", section))

    assert [1, 0, 0] == [status.json["clients"][name] for name in ("connected", "blocked", "subscribed")]
    assert CANARY not in status.text
    assert address[1].decode() not in status.text
    assert KEYS[0].decode() not in status.text
    assert set() == names_in(status.json) - documented


def latest(service: ServiceProcess) -> list[Any]:
    """The dead letters that `/status` has."""
    letters: list[Any] | None = get(service, "/status").json["dead_letters"]["latest"]
    return letters or []


def names_in(document: Any) -> set[str]:
    """The names of all fields, at any depth."""
    if isinstance(document, dict):
        return set(document).union(*map(names_in, document.values()))
    return set().union(*map(names_in, document)) if isinstance(document, list) else set()


def test_files_are_strict(tmp_path: Path) -> None:
    """Every file comes with a Content-Security-Policy that allows this service alone, and nothing inline."""
    with serving(tmp_path / "data") as service:
        address = address_of(service)
        answers = {}
        for path in ("", "page.css", "page.js", "history.js", "icon.svg", "status"):
            with urlopen(address + path, timeout=60) as answer:  # noqa: S310 - http, as it was made above
                answers[path] = (dict(answer.headers), answer.read().decode())

    for headers, _ in answers.values():
        policy = dict(part.split(" ", 1) for part in headers["Content-Security-Policy"].split("; "))
        assert ("'none'", "'self'", "'self'", "'self'") == tuple(
            policy[name] for name in ("default-src", "script-src", "style-src", "connect-src")
        )
        assert "unsafe" not in headers["Content-Security-Policy"]
        assert "nosniff" == headers["X-Content-Type-Options"]
    page = answers[""][1]
    assert [] == re.findall(r"<script(?![^>]*src)|<style|\sstyle=|\son\w+=|https?://", page)
    assert [] == re.findall(
        r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|\.style\b",
        answers["page.js"][1] + answers["history.js"][1],
    )
    assert 42_000 > sum(len(text) for _, text in answers.values())


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        ("ERR unknown command 'GETX'", "ERR unknown command 'GETX'"),
        ("ERR unknown command 'SET k secret'", "ERR unknown command (its name is left out here)"),
        ("ERR unknown command '\\xff'", "ERR unknown command (its name is left out here)"),
        ("unknown field ttl", "unknown field ttl"),
        ("unknown field user:42", "unknown field (its name is left out here)"),
        ("unknown field a1b2c3d4", "unknown field (its name is left out here)"),
        ("slot 5 belongs to partition 0, not 1: wrong partitioner",) * 2,
        ("ERR Unsupported option secret", "ERR Unsupported option (which is left out here)"),
        ("ERR member a\nb does not exist", "ERR member (which is left out here)"),
        (
            "ERR invalid longitude,latitude pair 4.900000,152.370000",
            "ERR invalid longitude,latitude pair (which is left out here)",
        ),
        ("ERR unknown type name 'secret'", "ERR unknown type name (which is left out here)"),
        (SYNTAX,) * 2,
        (
            "offset 7 (SET) cannot be applied: KeyError: b'user:42'",
            "offset 7 (SET) cannot be applied: KeyError; /readyz has the whole reason",
        ),
    ],
)
def test_reasons_are_cut(reason: str, shown: str) -> None:
    """A reason keeps the name of a command or field that looks like one, and nothing else that came with an event."""
    assert shown == shown_reason(reason)


async def test_letters_are_marked_when_sent_again(tmp_path: Path) -> None:
    """A letter that `slotlog deadletters redrive` has sent is listed as such, not as one that still waits."""
    data = tmp_path / "data"
    await append(data, [Entry(1, None, encode("SET", [KEYS[0], "v"]))])
    options = ["--data", data, "--topic", "board", "--partitions", PARTITIONS]
    with serving(data) as service:
        await asyncio.to_thread(wait_until, lambda: len(latest(service)) == 1, "the letter")
        before = latest(service)
    await asyncio.to_thread(succeed, "deadletters", "redrive", "--all", *options)
    with serving(data) as service:
        await asyncio.to_thread(wait_until, lambda: len(latest(service)) == 1, "the letter")
        after = latest(service)

    assert [False] == [letter["redriven"] for letter in before]
    assert [True] == [letter["redriven"] for letter in after]


async def test_it_says_which_worker_it_is(tmp_path: Path) -> None:
    """Host, process, address for clients, log and the other workers are there; each chart says what its edges mean."""
    own, other = (f"127.0.0.1:{port}" for port in free_ports(2))
    peers = f"0={own},1={other}"
    with serving(tmp_path / "data", SLOTLOG_REDIS__PEERS=peers, SLOTLOG_OWN="0", SLOTLOG_RESP=own) as service:
        document = get(service, "/status").json
        async with looking(service, tmp_path, rows=1) as tab:
            await tab.wait_until("document.querySelector('#tile-rate .top').textContent != ''")
            about = await tab.evaluate("document.querySelector('.about').textContent")
            others = await tab.evaluate("document.querySelector('#peers').textContent")
            edges = await tab.evaluate(
                "Array.from(document.querySelectorAll('.tiles figure'), (each) => [each.id,"
                " ...Array.from(each.querySelectorAll('.plot span'), (edge) => edge.textContent)])"
            )

    assert (document["worker"]["pid"], own) == (service._process.pid, document["worker"]["resp"])
    assert [(other, [1])] == [(each["address"], each["partitions"]) for each in document["peers"]]
    assert f"process {service._process.pid}" in about
    assert f"Redis clients at {own}" in about
    assert f"{other} partitions 1" in others
    assert [] == [edge for edge in edges if edge[0] != "tile-latency" and (not all(edge) or edge[4] != "now")]


async def test_it_says_how_quick_it_is(tmp_path: Path) -> None:
    """Commands a second, and what 99 of 100 reads and writes of the last minute took, are in the document."""
    with serving(tmp_path / "data", SLOTLOG_RESP="127.0.0.1:0") as service:
        idle = get(service, "/status").json["clients"]
        port = next(line["port"] for line in service.seen if line["event"] == "resp")
        client = await Client.connect(("127.0.0.1", port))
        for _ in range(50):
            await client.call("SET", KEYS[0], "1")
            await client.call("GET", KEYS[0])
        wait_until(
            lambda: get(service, "/status").json["clients"]["write_p99_seconds"] is not None, "it to be made anew"
        )
        busy = get(service, "/status").json["clients"]
        client.close()

    assert (None, None) == (idle["read_p99_seconds"], idle["write_p99_seconds"])
    assert 0 < busy["read_p99_seconds"] <= 60
    assert 0 < busy["write_p99_seconds"] <= 60
