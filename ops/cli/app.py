"""The program: its verbs and what holds for all of them."""

from __future__ import annotations

import sys

import typer

from ops.cli import demo, digest, dump, produce, query, replay, serve, skip, version

app = typer.Typer(
    name="slotlog",
    help="Redis' data model on an event log. Settings: options, SLOTLOG_* variables, slotlog.toml, in this order.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command()(serve.serve)
app.command()(produce.produce)
# What stands behind the command's name is its own: -1 is an index there, and no option.
app.command(context_settings={"allow_interspersed_args": False})(query.query)
app.command()(replay.replay)
app.command()(digest.digest)
app.command()(dump.dump)
app.command()(skip.skip)
app.command()(demo.demo)
app.command()(version.version)


def main() -> None:
    """Run the command line; the console script `slotlog`."""
    if not __debug__:
        sys.exit("slotlog: do not run Python with -O: the engine's assertions guard the data")
    app()
