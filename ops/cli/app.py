"""The program: its verbs and what holds for all of them."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer
from typer.main import get_command_name
from typer.models import CommandInfo

from ops.cli.events import import_keys, produce, query
from ops.cli.imports import INTERRUPTED
from ops.cli.keep import backup, erase, restore, snapshot, snapshots, trim
from ops.cli.options import print_note
from ops.cli.other import demo, load, version
from ops.cli.past import at, changes, history, restore_key, tail, what_if
from ops.cli.program import EVENTS, KEEP, OTHER, PAST, REBUILD, REPAIR, RUN, Program
from ops.cli.rebuild import chain, convert, digest, dump, export, repartition, replay, verify
from ops.cli.repair import check, clean, clock, deadletters, migrate, rules, skip, space
from ops.cli.run import serve, wait
from ops.config import unknown_variables
from ops.serving.process import tune_collector

app = typer.Typer(
    name="slotlog",
    cls=Program,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def slotlog(
    context: typer.Context,
    *,
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=version.print_version, is_eager=True),
    ] = False,
) -> None:
    """Redis' data model on an event log. Settings: options, then SLOTLOG_* variables, then slotlog.toml."""
    if context.invoked_subcommand != "serve":  # which writes a log line of it
        for hint in unknown_variables(os.environ):
            print_note(hint)


app.command(rich_help_panel=RUN)(serve.serve)
app.command(rich_help_panel=RUN)(wait.wait)
app.command(rich_help_panel=EVENTS)(produce.produce)
app.command("import", rich_help_panel=EVENTS)(import_keys.import_keys)
# What looks like an option and is none of its own is an argument of the Redis command: -1 is an index there.
app.command(rich_help_panel=EVENTS, context_settings={"ignore_unknown_options": True})(query.query)
app.command(rich_help_panel=PAST, context_settings={"ignore_unknown_options": True})(at.at)
app.command(rich_help_panel=PAST)(history.history)
app.command(rich_help_panel=PAST)(tail.tail)
app.command(rich_help_panel=PAST)(changes.changes)
app.command("restore-key", rich_help_panel=PAST)(restore_key.restore_key)
app.command("whatif", rich_help_panel=PAST)(what_if.what_if)
app.command(rich_help_panel=REBUILD)(replay.replay)
app.command(rich_help_panel=REBUILD)(convert.convert)
app.command(rich_help_panel=REBUILD)(digest.digest)
app.command(rich_help_panel=REBUILD)(verify.verify)
app.command(rich_help_panel=REBUILD)(chain.chain)
app.command(rich_help_panel=REBUILD)(dump.dump)
app.command(rich_help_panel=REBUILD)(repartition.repartition)
app.command(rich_help_panel=REBUILD)(export.export)
app.command(rich_help_panel=KEEP)(backup.backup)
app.command(rich_help_panel=KEEP)(snapshot.snapshot)
app.add_typer(snapshots.app, name="snapshots", rich_help_panel=KEEP)
app.command(rich_help_panel=KEEP)(restore.restore)
app.command(rich_help_panel=KEEP)(trim.trim)
app.command(rich_help_panel=KEEP)(erase.erase)
app.command(rich_help_panel=REPAIR, cls=check.LogOption)(check.check)
app.command(rich_help_panel=REPAIR)(space.space)
app.command(rich_help_panel=REPAIR)(clean.clean)
app.command(rich_help_panel=REPAIR)(migrate.migrate)
app.command(rich_help_panel=REPAIR)(skip.skip)
app.add_typer(clock.app, name="clock", rich_help_panel=REPAIR)
app.add_typer(rules.app, name="rules", rich_help_panel=REPAIR)
app.add_typer(deadletters.app, name="deadletters", rich_help_panel=REPAIR)
app.command(rich_help_panel=OTHER)(load.load)
app.command(rich_help_panel=OTHER)(demo.demo)
app.command(rich_help_panel=OTHER)(version.version)


def main() -> None:
    """Run the command line; the console script `slotlog`."""
    try:
        tune_collector()
        _leave_others_out(sys.argv[1:2])
        app()
    except KeyboardInterrupt:  # before the verb, or behind it: Typer ends one with the same code
        sys.exit(INTERRUPTED)


def _leave_others_out(verb: Sequence[str]) -> None:
    """Keep that verb alone, if it is one: to make all of them ready takes as long as many a one runs."""
    commands = [each for each in app.registered_commands if _name(each) in verb]
    if commands:
        app.registered_commands, app.registered_groups = commands, []


def _name(command: CommandInfo) -> str | None:
    return command.name or (command.callback and get_command_name(command.callback.__name__))
