"""The program: its verbs and what holds for all of them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from ops.cli import (
    check,
    clean,
    deadletters,
    demo,
    digest,
    dump,
    load,
    produce,
    query,
    replay,
    serve,
    skip,
    space,
    version,
)
from ops.cli.options import print_error
from ops.process import tune_collector


class Program(TyperGroup):
    """The verbs. With `--json` wrong usage is said in JSON as well; its exit code is 2 either way."""

    def main(self, args: Sequence[str] | None = None, *rest: Any, **extra: Any) -> Any:
        """Run the words of `args`, or those of the command line."""
        words = sys.argv[1:] if args is None else list(args)
        if "--json" not in words:
            return super().main(args, *rest, **extra)
        try:
            status = super().main(words, *rest, **{**extra, "standalone_mode": False})
        except typer.TyperException as error:
            print_error("UsageError", error.format_message(), json=True)
            status = error.exit_code
        sys.exit(status)


app = typer.Typer(
    name="slotlog",
    cls=Program,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.callback()
def slotlog(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=version.print_version, is_eager=True),
    ] = False,
) -> None:
    """Redis' data model on an event log. Settings: options, SLOTLOG_* variables, slotlog.toml, in this order."""


app.command()(serve.serve)
app.command()(produce.produce)
# What looks like an option and is none of its own is an argument of the Redis command: -1 is an index there.
app.command(context_settings={"ignore_unknown_options": True})(query.query)
app.command()(replay.replay)
app.command()(digest.digest)
app.command()(dump.dump)
app.command()(check.check)
app.command()(space.space)
app.command()(clean.clean)
app.command()(skip.skip)
app.add_typer(deadletters.app, name="deadletters")
app.command()(load.load)
app.command()(demo.demo)
app.command()(version.version)


def main() -> None:
    """Run the command line; the console script `slotlog`."""
    if not __debug__:
        sys.exit("slotlog: do not run Python with -O: the engine's assertions guard the data")
    tune_collector()
    app()
