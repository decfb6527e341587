"""Grafana's and Prometheus' provisioning files lead to the dashboards and rules of this repository."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any, Final

import pytest
import yaml

from tests.dashboards.files import FOLDER, NAMES, RULES, dashboard
from tests.dashboards.test_alerts import promtool

ROOT: Final = FOLDER.parent
SERVICES: Final = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
PROVISIONING: Final = PurePosixPath("/etc/grafana/provisioning")


def provisioned(place: str) -> Any:
    """The only file of Grafana's provisioning in that folder."""
    (file,) = (FOLDER / "provisioning" / place).iterdir()
    return yaml.safe_load(file.read_text())


def mounts(service: str) -> dict[str, str]:
    """Paths in the container by the paths here that they are."""
    volumes = [volume.split(":") for volume in SERVICES[service]["volumes"]]
    return {source.removeprefix("./"): target for source, target, *_ in volumes if source.startswith("./")}


def test_grafana_has_its_files() -> None:
    """The compose file mounts the provisioning where Grafana looks for it, and the dashboards where that says."""
    (provider,) = provisioned("dashboards")["providers"]

    assert str(PROVISIONING) == mounts("grafana")["dashboards/provisioning"]
    assert provider["options"]["path"] == mounts("grafana")["dashboards"]
    assert (False, "file") == (provider["allowUiUpdates"], provider["type"])


def test_grafana_asks_the_prometheus_of_the_compose_file() -> None:
    """The one data source has a fixed uid, is Prometheus', and its address is the service's."""
    (source,) = provisioned("datasources")["datasources"]

    assert ("slotlog-prometheus", "prometheus", True) == (source["uid"], source["type"], source["isDefault"])
    assert source["url"].removeprefix("http://").partition(":")[0] in SERVICES


@pytest.mark.parametrize("name", ["prometheus.yml", "prometheus-local.yml"])
def test_prometheus_loads_the_rules(name: str) -> None:
    """Its configuration is sound, loads alerts.yml from beside itself, and scrapes under the name that alerts want."""
    configuration = yaml.safe_load((FOLDER / name).read_text())
    code, output = promtool("check", "config", FOLDER / name)

    assert 0 == code, output
    assert [RULES.name] == configuration["rule_files"]
    assert "slotlog" in {job["job_name"] for job in configuration["scrape_configs"]}


def test_rates_fit_the_scrapes() -> None:
    """Grafana is told the interval at which Prometheus scrapes."""
    (source,) = provisioned("datasources")["datasources"]
    configuration = yaml.safe_load((FOLDER / "prometheus.yml").read_text())

    assert configuration["global"]["scrape_interval"] == source["jsonData"]["timeInterval"]


@pytest.mark.parametrize("name", NAMES)
def test_uids_are_fixed(name: str) -> None:
    """A link to a dashboard outlives an import."""
    assert f"slotlog-{name}" == dashboard(name)["uid"]
