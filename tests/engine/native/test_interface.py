"""A compiled part that was built for other Python code is left aside."""

from __future__ import annotations

import subprocess
import sys

_WITH_ANOTHER = """
import sys, types
sys.modules["engine.native._hot"] = types.ModuleType("engine.native._hot")
from engine import native
native.choose(native=True)
print(native.IS_BUILT, native.FITS, native.chosen())
from ops.cli.app import main
sys.argv = ["slotlog", "version"]
main()
"""


def test_one_of_another_interface_is_left_aside() -> None:
    """Python runs alone, whatever the setting says, and `slotlog version` says why and what to do."""
    said = subprocess.run([sys.executable, "-c", _WITH_ANOTHER], capture_output=True, text=True, check=True).stdout

    assert said.startswith("True False None\n")
    assert "Python, as what is compiled is of another version: make install" in said
