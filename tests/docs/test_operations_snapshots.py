"""`docs/operations.md`: a state goes to an S3 store, its disk is lost, it comes back, and the log is cut."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.docs.test_readme import agrees, environment_of_a_reader, pasted, steps
from tests.real.object_store import ObjectStore
from tests.real.process import free_ports

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = (ROOT / "docs/operations.md").read_text()
WALK: Final = PAGE.partition("\n### Lose the disk, and come back\n")[2].partition("\n### ")[0]


@pytest.mark.timeout(300)
def test_the_walk(object_store: ObjectStore, tmp_path: Path) -> None:
    """Whoever types the page's commands in their order sees what it shows."""
    (login, _), *walk = steps(WALK)
    http, resp = free_ports(2)
    environment = environment_of_a_reader() | {
        **object_store.environment,
        "SLOTLOG_HTTP": f"127.0.0.1:{http}",
        "SLOTLOG_RESP": f"127.0.0.1:{resp}",
    }
    commands = [command.replace("s3://snapshots/", f"{object_store.url}/") for command, _ in walk]
    printed = pasted(commands, tmp_path, environment)

    assert login.startswith("export AWS_ACCESS_KEY_ID=")
    assert [] == [
        (command, said, shown)
        for command, said, (_, shown) in zip(commands, printed, walk, strict=True)
        if not agrees(said, shown)
    ]
