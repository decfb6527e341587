"""The rules of alerts.yml as the resource that the Prometheus operator reads."""

from __future__ import annotations

from textwrap import indent
from typing import Final

from dashboards.build.write import FOLDER

MANIFEST: Final = FOLDER.parent / "deploy" / "kubernetes" / "rules.yaml"
_GROUPS: Final = "groups:\n"
_HEAD: Final = """\
# For the Prometheus operator: the rules of dashboards/alerts.yml, from which `make docs` makes this file.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: slotlog
  labels:
    app.kubernetes.io/name: slotlog
spec:
"""


def manifest() -> str:
    """The text of the manifest: comments stay where they are."""
    _, groups, rules = (FOLDER / "alerts.yml").read_text().partition(_GROUPS)
    return _HEAD + indent(groups + rules, "  ")
