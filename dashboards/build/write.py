"""The dashboards as the text of their files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from dashboards.build.clients import clients
from dashboards.build.ingestion import ingestion
from dashboards.build.overview import overview
from dashboards.build.storage import storage

FOLDER: Final = Path(__file__).parents[1]
_DASHBOARDS: Final = {
    "overview.json": overview,
    "ingestion.json": ingestion,
    "storage.json": storage,
    "clients.json": clients,
}


def built() -> dict[str, str]:
    """The text of every dashboard's file, by its name in dashboards/."""
    return {
        name: json.dumps(dashboard(), cls=JSONEncoder, indent=1, sort_keys=True) + "\n"
        for name, dashboard in _DASHBOARDS.items()
    }
