"""Every verb has help with an example, exit codes, JSON errors and all sources of settings."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

from ops.cli import app
from ops.cli.program import GROUPS, first_sentence
from slotlog.wording import sized
from tests.faults.service import ServiceProcess
from tests.ops.past.proof.states import with_state
from tests.ops.verbs import get, run, succeed, write_lines
from tests.real.process import free_ports

VERBS = [
    "serve",
    "wait",
    "produce",
    "import",
    "query",
    "at",
    "history",
    "tail",
    "changes",
    "restore-key",
    "whatif",
    "replay",
    "convert",
    "digest",
    "verify",
    "chain",
    "dump",
    "repartition",
    "export",
    "backup",
    "snapshot",
    "restore",
    "trim",
    "erase",
    "check",
    "space",
    "clean",
    "migrate",
    "skip",
    "load",
    "demo",
    "version",
    "snapshots",
    "clock",
    "rules",
    "deadletters",
]
CANARY = "canary-5e1f"
PATH = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
INCR = {"cmd": "INCR", "args": ["n"]}


def test_verbs_are_all_here() -> None:
    """The program has the verbs that this file goes through."""
    assert VERBS == list(get_command(app).commands)  # type: ignore[attr-defined]


@pytest.mark.parametrize("verb", VERBS)
def test_help_has_an_example(verb: str) -> None:
    """--help says what the verb does and shows a whole line to type, with options that there are."""
    said = " ".join(succeed(verb, "--help").split())
    example = re.search(r"Example: slotlog ([a-z-]+)([^:]*)", said)

    assert example is not None
    assert verb == example[1]
    assert [] == [
        option for option in re.findall(r"--[a-z-]+", example[2]) if f"{option} " not in said.split("Options:")[1]
    ]


def test_help_lists_every_verb_with_its_whole_sentence() -> None:
    """Each verb stands in a group of the program's help, with the first sentence of its own, whatever its length."""
    program = get_command(app)
    said = " ".join(succeed("-h").split())
    sentences = {verb: first_sentence(program.commands[verb].help or "") for verb in VERBS}  # type: ignore[attr-defined]

    assert [] == [verb for verb, sentence in sentences.items() if f" {verb} {sentence}" not in said]
    assert [] == [group for group in GROUPS if f"{group}: " not in said]
    assert [] == [verb for verb in VERBS if succeed(verb, "-h") != succeed(verb, "--help")]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_verbs_are_completed(shell: str) -> None:
    """Each shell has a completion to install, and what it asks for is answered with the verbs that begin like it."""
    script = subprocess.run(
        ["slotlog", "--show-completion", shell],
        env={**PATH, "SHELL": shell},
        capture_output=True,
        text=True,
        check=True,
    )
    asked = {"_SLOTLOG_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_ARGS": "slotlog re", "COMP_WORDS": "slotlog re"}
    more = {"COMP_CWORD": "1", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    answer = subprocess.run(["slotlog"], env={**PATH, **asked, **more}, capture_output=True, text=True, check=False)

    assert "_SLOTLOG_COMPLETE" in script.stdout
    assert "replay" in answer.stdout
    assert "serve" not in answer.stdout.split()


def test_a_misspelt_variable_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Every verb warns of a SLOTLOG_ variable that is no setting; a service does in its log."""
    monkeypatch.setenv("SLOTLOG_PARTITONS", "4")
    said = run("version").stderr
    with ServiceProcess(["--data", str(tmp_path / "data"), "--http", "", "--resp", ""]) as service:
        line = service.wait_for("unknown_variable")

    assert "slotlog: SLOTLOG_PARTITONS is no setting, and has no effect: do you mean SLOTLOG_PARTITIONS?\n" == said
    assert "do you mean SLOTLOG_PARTITIONS?" in line["hint"]


@pytest.mark.parametrize(
    ("size", "said"),
    [(1, "1 byte"), (1023, "1023 bytes"), (1536, "1.5 KiB"), (12 << 20, "12.0 MiB"), (3 << 30, "3.0 GiB")],
)
def test_sizes_are_said_in_their_unit(size: int, said: str) -> None:
    """People read a number of bytes in the unit that suits it."""
    assert said == sized(size)


@pytest.mark.parametrize("words", [[], ["nosuch"], ["serve", "--nosuch"], ["skip", "x", "y"], ["replay"]])
def test_wrong_usage_is_exit_code_2(words: list[str]) -> None:
    """A word that is no verb, an unknown option or a missing one is told from a failure by its exit code."""
    assert 2 == run(*words).exit_code


@pytest.mark.parametrize(
    "words",
    [
        ["serve"],
        ["produce", "events"],
        ["replay", "--to", "to"],
        ["wait"],
        ["digest"],
        ["dump"],
        ["check"],
        ["space"],
        ["skip", "0", "0"],
        ["deadletters", "list"],
        ["deadletters", "show", "0", "0"],
        ["deadletters", "redrive", "--all"],
    ],
)
def test_failure_is_one_line_or_one_document(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A setting that cannot be used is exit code 1, said in one line on stderr, or as one JSON document on stdout."""
    monkeypatch.chdir(tmp_path)
    plain = run(*words, "--topic", "no topic")
    as_json = run(*words, "--topic", "no topic", "--json")

    assert (1, 1) == (plain.exit_code, as_json.exit_code)
    assert ("", 1) == (plain.stdout, plain.stderr.count("\n"))
    assert plain.stderr.startswith("slotlog: topic: ")
    assert ("ConfigError", plain.stderr) == (
        json.loads(as_json.stdout)["kind"],
        f"slotlog: {json.loads(as_json.stdout)['error']}\n",
    )
    assert [] == list(tmp_path.iterdir())


def test_verbs_read_environment_and_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without options, each verb takes its settings from SLOTLOG_* and from slotlog.toml in the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "slotlog.toml").write_text('topic = "from-file"\npartitions = 2\nhttp = ""\n')
    monkeypatch.setenv("SLOTLOG_DATA", "from-environment")
    said = json.loads(succeed("produce", write_lines(tmp_path / "events", [INCR]), "--json"))
    with ServiceProcess([], {"SLOTLOG_LOG_LEVEL": "debug"}) as service:
        started = service.wait_for("started")
        service.wait_for("batch")
        assert 0 == service.terminate()
    partition = said["partitions"][0]["partition"]
    rebuilt = json.loads(succeed("replay", "--to", "to", "--json"))["partitions"]

    assert ("from-file", [0, 1], "from-environment") == tuple(started[name] for name in ("topic", "own", "data"))
    assert '"1"\n' == succeed("query", "GET", "n")
    assert 1 == json.loads(succeed("digest", "--json"))["partitions"][partition]["next_offset"]
    assert "n" == json.loads(succeed("dump"))["key"]
    assert rebuilt[partition]["digest"] == rebuilt[partition]["live_digest"]
    assert "before offset 1" in run("skip", partition, 7).stderr


@pytest.mark.parametrize(
    "words",
    [
        ["restore", "--from", "store", "--to", ""],
        ["restore", "--to=", "--from", "store"],
        ["restore", "--to", "new", "--from", ""],
        ["snapshot", "--to", ""],
        ["snapshots", "verify", "--scratch", ""],
        ["digest", "--data", ""],
        ["query", "GET", "k", "--data="],
    ],
)
def test_an_empty_path_is_wrong_usage(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be the working directory, which nobody has named; what a variable was to name, say."""
    monkeypatch.chdir(tmp_path)
    plain, as_json = run(*words), run(*words, "--json")

    assert (2, 2) == (plain.exit_code, as_json.exit_code)
    assert re.search(r"--(to|from|scratch|data) has an empty (path|address): name one", plain.stderr)
    assert "UsageError" == json.loads(as_json.stdout)["kind"]
    assert [] == list(tmp_path.iterdir())


def test_an_empty_argument_behind_two_dashes_is_one_of_redis(tmp_path: Path) -> None:
    """What stands there is no option of the verb."""
    data = with_state(tmp_path / "data", [(0, "SET", ["", "v"])])

    assert '"v"\n' == succeed("query", "--data", data, "--stale", "--", "GET", "")
    assert "wrong number of arguments" in run("query", "--data", data, "--stale", "--", "GET", "--data", "").stderr


def test_an_empty_directory_of_the_environment_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """SLOTLOG_DATA without a value names the working directory no more than an option does."""
    monkeypatch.setenv("SLOTLOG_DATA", "")
    result = run("digest")

    assert (1, True) == (result.exit_code, "SLOTLOG_DATA: an empty path: name a directory" in result.stderr)


def test_option_goes_before_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the command line says holds."""
    monkeypatch.setenv("SLOTLOG_DATA", str(tmp_path / "not here"))
    succeed("produce", write_lines(tmp_path / "events", [INCR]), "--data", tmp_path / "here")

    assert ["events", "here"] == sorted(path.name for path in tmp_path.iterdir())


def test_no_output_has_a_secret(tmp_path: Path) -> None:
    """The SASL password is in no log line, error, metric or help text, at the most talkative level."""
    secret = {
        "SLOTLOG_KAFKA__SECURITY_PROTOCOL": "SASL_PLAINTEXT",
        "SLOTLOG_KAFKA__SASL_USERNAME": "user",
        "SLOTLOG_KAFKA__SASL_PASSWORD": CANARY,
        "SLOTLOG_LOG_LEVEL": "debug",
    }
    nobody = f"kafka://127.0.0.1:{free_ports(1)[0]}"
    write_lines(tmp_path / "events", [INCR])
    said = subprocess.run(
        [sys.executable, "-m", "ops.cli", "produce", tmp_path / "events", "--log", nobody, "--data", tmp_path],
        env=secret | {"PYTHONPATH": str(Path.cwd())},
        capture_output=True,
        text=True,
        check=False,
    )
    with ServiceProcess(["--data", str(tmp_path), "--log", nobody, "--http", ""], secret) as waiting:
        refused = waiting.wait_for("stamina.retry_scheduled")
        assert 0 == waiting.terminate()
        waiting.wait_for_end()
    with ServiceProcess(["--data", str(tmp_path / "data"), "--http", "127.0.0.1:0"], secret) as service:
        service.wait_for("started")
        pages = [get(service, path).text for path in ("/metrics", "/livez", "/readyz")]
        assert 0 == service.terminate()
        service.wait_for_end()

    lines = waiting.seen + service.seen
    assert (1, True, True) == (said.returncode, "Kafka" in said.stderr, "Kafka" in refused["caused_by"])
    assert CANARY not in "".join([*pages, said.stdout, said.stderr, json.dumps(lines)])
    assert [True] * len(lines) == [{"event", "level", "timestamp"} <= line.keys() for line in lines]


def test_optimized_python_changes_nothing() -> None:
    """`python -O` drops `assert` statements, and none guards the data: a verb runs under it."""
    done = subprocess.run(
        [sys.executable, "-O", "-m", "ops.cli", "version"], capture_output=True, text=True, check=True
    )

    assert "" != done.stdout


def test_partitions_are_said_one_way() -> None:
    """`--own` and `--own-of` together are wrong usage: neither wins without a word."""
    done = run("serve", "--own", "0", "--own-of", "0/2")

    assert (2, True) == (done.exit_code, "one of the two" in done.output)
