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
    print(seen, gc.get_threshold()[0], {"rich", "aiokafka", "aiohttp"} & set(sys.modules))

uvloop.run = run
from ops.cli.app import main
sys.argv = ["slotlog", "serve", "--http", ""]
main()
"""
"""`slotlog serve` up to where its loop would begin; then the modules that the collector walks over."""


def test_a_service_has_the_collector_pass_by_its_modules() -> None:
    """No module of a service is looked at again, those that the verb alone imports included.

    rich is none of them, nor is aiokafka with the embedded log, which takes 5 MB and 0.1 s, nor aiohttp without a page.
    """
    result = subprocess.run(
        [sys.executable, "-c", SERVE], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )

    assert ("[] 10000 set()\n", 0) == (result.stdout, result.returncode), result.stderr
