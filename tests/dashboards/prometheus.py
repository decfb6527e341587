"""A real Prometheus, Debian's, that scrapes what a test has started."""

from __future__ import annotations

import json
import shutil
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from math import isnan
from pathlib import Path
from typing import Any, Final

import yaml

from tests.real.process import Server, Started, free_ports

SCRAPE_S: Final = 1
_START_TIMEOUT_S: Final = 60
_RANGE_S: Final = 30
_STEP_S: Final = 5


class Prometheus(Started):
    """One server on a free loopback port, with its data in `directory`.

    Args:
        directory: gets configuration, data and output.
        targets: by job, the HOST:PORT to be scraped every second.
        rules: files of recording rules and alerts.
    """

    def __init__(self, directory: Path, targets: Mapping[str, Sequence[str]], rules: Sequence[Path] = ()) -> None:
        program = shutil.which("prometheus")
        assert program is not None, "apt-get install prometheus"
        (port,) = free_ports(1)
        configuration = {
            "global": {"scrape_interval": f"{SCRAPE_S}s", "evaluation_interval": f"{SCRAPE_S}s"},
            "rule_files": [str(path) for path in rules],
            "scrape_configs": [
                {"job_name": job, "static_configs": [{"targets": list(addresses)}]}
                for job, addresses in targets.items()
            ],
        }
        file = directory / "prometheus.yml"
        file.write_text(yaml.safe_dump(configuration))
        self._url = f"http://127.0.0.1:{port}"
        command = [
            program,
            f"--config.file={file}",
            f"--storage.tsdb.path={directory / 'prometheus'}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--log.level=warn",
        ]
        super().__init__(Server("prometheus", command, directory / "prometheus.log", self._ready, _START_TIMEOUT_S))

    def series(self, expression: str, at_s: float) -> int:
        """How many series have a number (not NaN) in the half minute before `at_s`, as a panel would show it."""
        query = {"query": expression, "start": at_s - _RANGE_S, "end": at_s, "step": _STEP_S}
        result = self._get("query_range", query)["result"]
        return sum(any(not isnan(float(value)) for _, value in series["values"]) for series in result)

    def now_s(self) -> float:
        """Prometheus' time, in seconds since 1970."""
        return float(self._get("query", {"query": "time()"})["result"][0])

    def label_values(self, selector: str, label: str) -> set[str]:
        """What Grafana's `label_values(selector, label)` gives."""
        return set(self._get(f"label/{label}/values", {"match[]": selector}))

    def rules(self) -> list[dict[str, Any]]:
        """Every loaded rule, with its health and last error."""
        return [rule for group in self._get("rules", {})["groups"] for rule in group["rules"]]

    def _get(self, path: str, parameters: Mapping[str, object]) -> Any:
        data = urllib.parse.urlencode(parameters)
        try:
            with urllib.request.urlopen(f"{self._url}/api/v1/{path}?{data}", timeout=30) as response:  # noqa: S310
                return json.load(response)["data"]
        except urllib.error.HTTPError as error:
            with error:
                raise AssertionError(f"{path} {dict(parameters)}: {json.load(error)['error']}") from None

    def _ready(self) -> bool:
        with urllib.request.urlopen(f"{self._url}/-/ready", timeout=10) as response:  # noqa: S310 - our own child
            return bool(response.status == 200)
