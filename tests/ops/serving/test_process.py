"""The settings of the whole process hold for a service."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

from tests.tidy.source import ROOT

SERVE: Final = """
import gc, sys
import uvloop

def run(service):
    service.close()
    looked_at = {id(each) for each in gc.get_objects()}
    parts = ("engine.apply.machine", "ingest.applying.consumer", "resp.server", "ops.cli.app")
    seen = [name for name in parts if id(vars(sys.modules[name])) in looked_at]
    print(seen, gc.get_threshold()[0], "rich" in sys.modules)

uvloop.run = run
from ops.cli.app import main
sys.argv = ["slotlog", "serve"]
main()
"""
"""`slotlog serve` up to where its loop would begin; then the modules that the collector walks over."""


def test_a_service_has_the_collector_pass_by_its_modules() -> None:
    """No module of a service is looked at again, those that the verb alone imports included; rich is none of them."""
    result = subprocess.run(
        [sys.executable, "-c", SERVE], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )

    assert ("[] 10000 False\n", 0) == (result.stdout, result.returncode), result.stderr
