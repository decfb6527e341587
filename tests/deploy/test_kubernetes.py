"""The manifests in deploy/kubernetes: valid, and fitting each other, the image and the program."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from dashboards.build.rules import MANIFEST, manifest
from ops.config import Settings, load_settings
from resp.cluster.topology import parse_peers
from tests.deploy.files import ROOT, compose, manifests

FILES: Final = sorted((ROOT / "deploy/kubernetes").glob("*.yaml"))
MANIFESTS: Final = manifests()
SET: Final[dict[str, Any]] = MANIFESTS["StatefulSet/slotlog"]["spec"]
POD: Final[dict[str, Any]] = SET["template"]["spec"]
(CONTAINER,) = POD["containers"]
SETTINGS: Final[dict[str, str]] = MANIFESTS["ConfigMap/slotlog"]["data"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_schema_of_kubernetes_is_kept(path: Path) -> None:
    """Every field is one that Kubernetes knows, of the right type; of the operator's resources it has no schema."""
    validate = Path(sys.executable).with_name("kubernetes-validate")
    done = subprocess.run([validate, "--strict", "--quiet", path], capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr

    assert done.returncode == 0, said
    assert ("ServiceMonitor" in said, "PrometheusRule" in said) == (path.stem == "monitor", path.stem == "rules")
    assert said.count("WARN") == (path.stem in {"monitor", "rules"})


def test_each_pod_owns_the_partitions_that_its_number_says() -> None:
    """The arguments, with the pod's number put in as Kubernetes does, give every partition to one pod; peers agree."""
    number = next(each for each in CONTAINER["env"] if each["name"] == "POD_INDEX")
    partitions = int(SETTINGS["SLOTLOG_PARTITIONS"])
    verb, option, share = CONTAINER["args"]
    owned = [
        load_settings(partitions=partitions, own_of=share.replace("$(POD_INDEX)", str(pod))).owned
        for pod in range(SET["replicas"])
    ]
    variables = {each["name"]: each for each in CONTAINER["env"]}
    told = variables["SLOTLOG_REDIS__PEERS"]["value"].replace("$(POD_NAMESPACE)", "shop")
    peers = parse_peers(told, partitions)

    assert number["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.labels['apps.kubernetes.io/pod-index']"
    assert variables["POD_NAMESPACE"]["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.namespace"
    # A variable is put in only where it stands before.
    assert list(variables).index("POD_NAMESPACE") < list(variables).index("SLOTLOG_REDIS__PEERS")
    assert (verb, option) == ("serve", "--own-of")
    assert sorted(partition for each in owned for partition in each) == list(range(partitions))
    assert peers == {
        partition: (f"slotlog-{pod}.{SET['serviceName']}.shop.svc", 6379)
        for pod, partitions_of_pod in enumerate(owned)
        for partition in partitions_of_pod
    }


def test_settings_exist() -> None:
    """Each variable of the config map is a setting, or a table of settings with one in it."""
    for name in SETTINGS:
        table, _, field = name.removeprefix("SLOTLOG_").lower().partition("__")
        assert table in Settings.model_fields
        assert not field or field in Settings.model_fields[table].annotation.model_fields  # type: ignore[union-attr]


def test_resources_name_each_other_rightly() -> None:
    """Services, budget and monitor select the pods; the headless one gives them names; ports and volumes are there."""
    labels = SET["template"]["metadata"]["labels"]
    headless, clients = MANIFESTS["Service/slotlog"]["spec"], MANIFESTS["Service/slotlog-redis"]["spec"]
    monitor = MANIFESTS["ServiceMonitor/slotlog"]["spec"]
    ports = {port["name"] for port in CONTAINER["ports"]}
    volumes = {each["metadata"]["name"] for each in SET["volumeClaimTemplates"]} | {
        each["name"] for each in POD["volumes"]
    }

    assert SET["selector"]["matchLabels"] == labels == headless["selector"] == clients["selector"]
    assert MANIFESTS["PodDisruptionBudget/slotlog"]["spec"]["selector"]["matchLabels"] == labels
    assert (headless["clusterIP"], headless["publishNotReadyAddresses"]) == ("None", True)
    assert SET["serviceName"] == MANIFESTS["Service/slotlog"]["metadata"]["name"]
    assert {port["targetPort"] for port in headless["ports"] + clients["ports"]} <= ports
    assert monitor["selector"]["matchLabels"].items() <= MANIFESTS["Service/slotlog"]["metadata"]["labels"].items()
    assert [(each["port"], each["path"]) for each in monitor["endpoints"]] == [("http", "/metrics")]
    assert set(monitor) == {"jobLabel", "selector", "endpoints"}
    assert {mount["name"] for mount in CONTAINER["volumeMounts"]} == volumes


def test_the_network_is_closed_but_for_those_who_need_it() -> None:
    """The policy is of the pods, names their ports, and lets workers, clients, Prometheus, Kafka and names through."""
    spec = MANIFESTS["NetworkPolicy/slotlog"]["spec"]
    labels = SET["template"]["metadata"]["labels"]
    _, kafka_port = SETTINGS["SLOTLOG_LOG"].rsplit(":", 1)
    entered = {port["port"] for rule in spec["ingress"] for port in rule["ports"]}
    left = {port["port"] for rule in spec["egress"] for port in rule["ports"]}

    assert spec["podSelector"]["matchLabels"] == labels
    assert set(spec["policyTypes"]) == {"Ingress", "Egress"}
    assert entered == {port["name"] for port in CONTAINER["ports"]}
    assert all(rule["from"] for rule in spec["ingress"])
    assert left == {"redis", int(kafka_port), 53}
    reached = [peer for rule in spec["egress"] for peer in rule.get("to", [])]
    assert [{"podSelector": {"matchLabels": labels}}] == reached


def test_the_operator_has_the_rules() -> None:
    """The manifest is what `make docs` makes of alerts.yml: the same groups, with the labels of everything else."""
    rules = MANIFESTS["PrometheusRule/slotlog"]

    assert MANIFEST.read_text() == manifest()
    assert rules["spec"] == yaml.safe_load((ROOT / "dashboards/alerts.yml").read_text())
    assert rules["metadata"]["labels"] == MANIFESTS["ServiceMonitor/slotlog"]["metadata"]["labels"]
    assert set(rules) == {"apiVersion", "kind", "metadata", "spec"}
    assert rules["apiVersion"] == MANIFESTS["ServiceMonitor/slotlog"]["apiVersion"]


def test_the_pod_is_probed_and_kept_small() -> None:
    """Start and life ask /livez, readiness /readyz; user, mount and ports are the image's; the root is read-only."""
    probes = {name: CONTAINER[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")}
    exposed = re.search(r"^EXPOSE (.*)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)

    assert {name: probe["path"] for name, probe in probes.items()} == {
        "startup": "/livez",
        "liveness": "/livez",
        "readiness": "/readyz",
    }
    assert {probe["port"] for probe in probes.values()} == {"http"}
    assert (
        f"{POD['securityContext']['runAsUser']}:{POD['securityContext']['runAsGroup']}"
        == (compose()["services"]["slotlog-0"]["user"])
    )
    assert CONTAINER["securityContext"]["readOnlyRootFilesystem"]
    assert "/data" in {mount["mountPath"] for mount in CONTAINER["volumeMounts"]}
    assert exposed is not None
    assert {str(port["containerPort"]) for port in CONTAINER["ports"]} == set(exposed[1].split())
