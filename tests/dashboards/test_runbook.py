"""docs/runbook.md: a section for each alert, with commands, settings and panels that there are."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import pytest
import typer.main

from ops.cli import app
from ops.config import Settings
from tests.dashboards.files import FOLDER, NAMES, alerts, dashboard, panels
from tests.real.oracle import ErrorReply
from tests.wire.servers import slotlog

ROOT: Final = FOLDER.parent
RUNBOOK: Final = (ROOT / "docs" / "runbook.md").read_text()
PROSE: Final = " ".join(line for line in RUNBOOK.splitlines() if not line.startswith("    "))
SECTIONS: Final = dict(re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", RUNBOOK, re.MULTILINE | re.DOTALL))
ALERTS: Final = [alert.name for alert in alerts()]
UNTOLD: Final = "A state that differs from its log"
"""The section of what no alert tells."""
OF_PROMETHEUS: Final = {"Status / Targets"}


def test_runbook_has_a_section_for_each_alert() -> None:
    """In the order of alerts.yml, and none for an alert that there is not; behind them what no alert tells."""
    assert [*ALERTS, UNTOLD] == list(SECTIONS)


@pytest.mark.parametrize("name", [*ALERTS, UNTOLD])
def test_section_says_what_to_do(name: str) -> None:
    """What it means, what to look at, and what to do, with a command to type."""
    section = SECTIONS[name]

    assert ["**Means:**", "**Look at:**", "**Do:**"] == re.findall(r"^\*\*[A-Z][a-z ]+:\*\*", section, re.MULTILINE)
    assert re.search(r"^    \S", section, re.MULTILINE)


def test_commands_of_the_runbook_exist() -> None:
    """Every `slotlog VERB` that it says to type is a verb, and every option one that the verb has."""
    typed = re.findall(r"^ {4,}slotlog (.+)$|`slotlog ([^`]+)`", RUNBOOK, re.MULTILINE)

    assert [] != typed
    assert [] == [words for block, inline in typed for words in unknown((block or inline).split())]


def unknown(words: list[str]) -> list[str]:
    """Those of the words after `slotlog` that are neither a verb, nor an option of it, nor an argument."""
    command: Any = typer.main.get_command(app)
    while words and (verbs := getattr(command, "commands", {})):
        if words[0] not in verbs:
            return words
        command, words = verbs[words[0]], words[1:]
    options = {option for parameter in command.params for option in parameter.opts}
    return [word for word in words if word.startswith("--") and word not in options | {"--help"}]


def test_a_wrong_command_is_found() -> None:
    """A verb or an option that there is not would not pass."""
    assert [["nosuch", "--data"], ["--nosuch"]] == [unknown(["nosuch", "--data"]), unknown(["skip", "0", "--nosuch"])]


def test_redis_commands_of_the_runbook_exist(tmp_path: Path) -> None:
    """Every command that it gives to redis-cli is answered by a service, and not with an error."""
    typed = re.findall(r"^    redis-cli -h HOST (.+)$", RUNBOOK, re.MULTILINE)
    with slotlog(tmp_path, options=["--partitions", "2"]) as server:  # some are for several workers
        connection = server.connect()
        replies = {words: connection.call(*words.split()) for words in typed}
        connection.close()

    assert {} != replies
    assert {} == {words: reply for words, reply in replies.items() if isinstance(reply, ErrorReply)}
    assert [] != replies["CONFIG GET client-*"]


def test_panels_of_the_runbook_exist() -> None:
    """What stands there in italics is the name of a dashboard or of one of its panels."""
    there = {dashboard(name)["title"].removeprefix("slotlog / ") for name in NAMES} | OF_PROMETHEUS
    there |= {panel["title"] for name in NAMES for panel in panels(name)}
    named = set(re.findall(r"(?<!\*)\*([^*]+)\*(?!\*)", PROSE))

    assert set() != named
    assert set() == named - there


def test_settings_of_the_runbook_exist() -> None:
    """What stands there as code, in words joined by underscores, is a setting or an event in the service's log."""
    named = set(re.findall(r"`([a-z]+(?:_[a-z]+)+)`", PROSE))
    folders = ("slotlog", "ingest", "resp", "ops")
    source = "".join(path.read_text() for folder in folders for path in (ROOT / folder).rglob("*.py"))
    events = set(re.findall(r'logger\.\w+\(\s*"(\w+)"', source))

    assert set() != named
    assert set() == named - Settings.model_fields.keys() - events


def test_links_of_the_runbook_lead_to_sections() -> None:
    """Every link within the page is to a section of it."""
    linked = set(re.findall(r"\(#([^)]+)\)", RUNBOOK))

    assert set() != linked
    assert set() == linked - {name.lower().replace(" ", "-") for name in SECTIONS}
