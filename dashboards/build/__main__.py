"""`python -m dashboards.build`: write dashboards/*.json anew, and the rules for the Prometheus operator."""

from __future__ import annotations

from dashboards.build.rules import MANIFEST, manifest
from dashboards.build.write import FOLDER, built

for name, text in built().items():
    (FOLDER / name).write_text(text)
MANIFEST.write_text(manifest())
