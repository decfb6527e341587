"""Every query of the dashboards and the rules has data in a real Prometheus that watches a service under load.

So has redis_exporter's stock dashboard, by the queries of its main panels.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Final, NamedTuple

import pytest

from slotlog.events import encode
from slotlog.log import Entry, open_log
from tests.dashboards.files import NAMES, RULES, alerts, dashboard, expressions, recordings
from tests.dashboards.linter import QUERY, variables
from tests.dashboards.load import EARLIER_KEYS, Load
from tests.dashboards.prometheus import Prometheus
from tests.dashboards.promql import compared, substituted
from tests.faults.service import ServiceProcess
from tests.ops.verbs import succeed, wait_for_offset
from tests.resp.reports.test_exporter import Exporter

LOAD_S: Final = 60
TOPIC: Final = "orders"
JOB: Final = "slotlog"

EXPORTER_PANELS: Final = {
    "max uptime": "max(max_over_time(redis_uptime_in_seconds[10s]))",
    "clients": "sum(redis_connected_clients)",
    "memory usage": "sum(100 * redis_memory_used_bytes / redis_memory_max_bytes)",
    "commands executed": "sum(rate(redis_commands_total[10s])) by (cmd)",
    "hits": "irate(redis_keyspace_hits_total[10s])",
    "misses": "irate(redis_keyspace_misses_total[10s])",
    "memory used": "redis_memory_used_bytes",
    "memory allowed": "redis_memory_max_bytes",
    "network in": "sum(rate(redis_net_input_bytes_total[10s]))",
    "network out": "sum(rate(redis_net_output_bytes_total[10s]))",
    "items of each database": "sum(redis_db_keys) by (db, instance)",
    "items that expire": "sum(redis_db_keys_expiring) by (instance)",
    "items that do not": "sum(redis_db_keys) by (instance) - sum(redis_db_keys_expiring) by (instance)",
    "expired": "sum(rate(redis_expired_keys_total[10s])) by (instance)",
    "evicted": "sum(rate(redis_evicted_keys_total[10s])) by (instance)",
    "blocked clients": "sum(redis_blocked_clients)",
    "mean time by command": "sum(irate(redis_commands_duration_seconds_total[10s])) by (cmd)"
    " / sum(irate(redis_commands_total[10s])) by (cmd)",
    "total time by command": "sum(irate(redis_commands_duration_seconds_total[10s])) by (cmd) != 0",
}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


class Watched(NamedTuple):
    """A Prometheus that has watched a load, and its time when the load ended, in seconds since 1970."""

    prometheus: Prometheus
    end_s: float

    def without_data(self, queries: list[tuple[str, str]]) -> list[tuple[str, str]]:
        """The (name, query) of those that show nothing."""
        return [(name, query) for name, query in queries if not self.prometheus.series(substituted(query), self.end_s)]


async def earlier_events(data: Path) -> None:
    """A log with the keys that Load reads."""
    log = open_log(f"sqlite:///{data / 'log.sqlite3'}", topic=TOPIC, partitions=1)
    await log.start()
    await log.append([Entry(0, b"\0\0", encode("SET", [f"early:{n}", "x" * 100])) for n in range(EARLIER_KEYS)])
    await log.close()


@contextmanager
def serving(file: Path) -> Iterator[str]:
    """HOST:PORT where a file is /metrics: what node_exporter makes of the files that it is given."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(file.read_bytes())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the base has it
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """A service under load for a minute, and beside it redis_exporter, both scraped by Prometheus."""
    directory = tmp_path_factory.mktemp("watched")
    data = directory / "data"
    options = ["--data", str(data), "--topic", TOPIC, "--http", "127.0.0.1:0", "--resp", "127.0.0.1:0"]
    data.mkdir()
    asyncio.run(earlier_events(data))
    with ServiceProcess(options) as service:  # what it leaves is in tables: the block cache has something to do
        service.wait_for("started")
        wait_for_offset(service, EARLIER_KEYS)
        assert 0 == service.terminate()
    succeed("replay", "--data", data, "--to", directory / "again", "--metrics-file", directory / "replay.prom")
    slow_reclaim = {"SLOTLOG_RECLAIM_ELEMENTS_PER_S": "500"}  # else no collection is dead for as long as a scrape
    with ServiceProcess(options, slow_reclaim) as service, serving(directory / "replay.prom") as replay:
        service.wait_for("started")
        ports = {line["event"]: line["port"] for line in service.seen if line["event"] in {"http", "resp"}}
        resp = ("127.0.0.1", ports["resp"])
        exporter = Exporter(resp, directory)
        exporter.server.start()
        targets = {JOB: [f"127.0.0.1:{ports['http']}"], "redis_exporter": [exporter.address], "node": [replay]}
        with Prometheus(directory, targets, [RULES]) as prometheus:
            with Load(resp, f"sqlite:///{data / 'log.sqlite3'}", TOPIC) as load:
                load.last(LOAD_S)
                end_s = prometheus.now_s()
            exporter.server.stop()
            yield Watched(prometheus, end_s)


@pytest.mark.parametrize("name", NAMES)
def test_every_panel_has_data(watched: Watched, name: str) -> None:
    """Every query of every panel, with `All` chosen in the variables, gives at least one series with a number."""
    assert [] == watched.without_data(expressions(name))


def test_a_query_without_data_is_found(watched: Watched) -> None:
    """A query of a metric that is not exposed does not pass for one with data, nor does one that gives only NaN."""
    queries = [("no series", "slotlog_nosuch"), ("no number", "0 * slotlog_ready / 0")]

    assert queries == watched.without_data(queries)


@pytest.mark.parametrize("name", NAMES)
def test_variables_have_values(watched: Watched, name: str) -> None:
    """Whoever opens a dashboard finds job, instance and partition to choose from."""
    found = {}
    for variable in variables(dashboard(name), "query"):
        query = QUERY.fullmatch(variable["query"])
        assert query is not None
        found[variable["name"]] = watched.prometheus.label_values(substituted(query[2]), query[3])

    assert ({JOB}, 1, {"0"}) == (found["job"], len(found["instance"]), found["partition"])


def test_every_alert_looks_at_data(watched: Watched) -> None:
    """What each alert compares is there, so that it is silent because nothing is wrong."""
    assert [] == watched.without_data([(alert.name, side) for alert in alerts() for side in compared(alert.expression)])


def test_every_recording_rule_records(watched: Watched) -> None:
    """Prometheus has written every recorded series."""
    assert [] == watched.without_data([(rule.name, rule.name) for rule in recordings()])


def test_rules_are_evaluated_without_error(watched: Watched) -> None:
    """Prometheus has evaluated every rule of alerts.yml, and had nothing to say of any."""
    rules = watched.prometheus.rules()

    assert {rule.name for rule in (*alerts(), *recordings())} == {rule["name"] for rule in rules}
    assert [] == [rule for rule in rules if rule["health"] != "ok"]


def test_only_the_alerts_that_the_load_deserves_fire(watched: Watched) -> None:
    """Dead letters were sent, and nothing else is wrong."""
    firing = {rule["name"] for rule in watched.prometheus.rules() if rule.get("state") == "firing"}

    assert {"SlotlogDeadLetters"} == firing


def test_stock_dashboard_of_the_exporter_has_data(watched: Watched) -> None:
    """The queries behind the main panels of redis_exporter's own dashboard give numbers for slotlog."""
    assert [] == watched.without_data(list(EXPORTER_PANELS.items()))
