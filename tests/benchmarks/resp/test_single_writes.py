"""Single writes are measured beside the floor and valkey-server, and the floor keeps what it answers."""

from __future__ import annotations

import json
import socket
import threading
import time
from pathlib import Path

from benchmarks.resp.single_writes import SINGLE_SMOKE, run_single, started_floor
from tests.real.oracle import request


async def test_each_write_has_a_line() -> None:
    """A line for each write, with the latencies of all three servers, and two ratios of their p99."""
    found = [json.loads(result.line()) async for result in run_single(SINGLE_SMOKE)]

    assert [f"single_{name}" for name in SINGLE_SMOKE.commands] == [line["name"] for line in found]
    figures = ("per_second", "p50_ms", "p99_ms", "cpu_us")
    of_all = {prefix + field for prefix in ("", "floor_", "valkey_") for field in figures}
    for line in found:
        assert of_all | {"name", "p99_ratio", "floor_p99_ratio", "pairs", "load"} == line.keys()
        assert all(line[name] > 0 for name in of_all)


def test_the_floor_keeps_every_write_before_it_answers(tmp_path: Path) -> None:
    """What the floor has answered stands in its file, whole, of several clients at once, also when cut in two."""
    with started_floor(tmp_path) as server:

        def write(number: int) -> None:
            connection = server.connect()
            for _ in range(50):
                assert connection.call("SET", f"key:{number}", "VXK") == 1
            connection.close()

        clients = [threading.Thread(target=write, args=(number,)) for number in range(4)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        with socket.create_connection(server.address) as halves:
            first, second = request(["SET", "key:4", "VXK"])[:20], request(["SET", "key:4", "VXK"])[20:]
            for part in (first, second + first, second):
                halves.sendall(part)
                time.sleep(0.02)
            assert halves.recv(8) == b":1\r\n:1\r\n"
        connection = server.connect()
        info = connection.call("INFO", "commandstats")
        connection.close()

    kept = (tmp_path / "writes").read_bytes()
    assert 202 == kept.count(b"SET") == int(info.decode().partition("cmdstat_set:calls=")[2].partition(",")[0])
    assert all(kept.count(request(["SET", f"key:{number}", "VXK"]).rstrip()) == 50 for number in range(4))
