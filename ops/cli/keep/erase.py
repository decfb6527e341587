"""`slotlog erase`."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Annotated

import typer

from ops.cli.options import Json, print_json, reports_errors
from ops.config import ConfigError


@reports_errors
def erase(
    subject: Annotated[str, typer.Argument(metavar="SUBJECT", help="Whose values: as they were sealed.")],
    *,
    keys: Annotated[Path, typer.Option(metavar="FILE", help="The key store (`slotlog.KeyFile`).")],
    json: Json = False,
) -> None:
    """Destroy the key under which the values of a subject were sealed: nobody can open them any more.

    The log, states and snapshots stay as they are, and keep their order. This cannot be undone. It fails where the
    subject has no key.

    Example: slotlog erase user:42 --keys keys.sqlite3
    """
    from slotlog.sealing import KeyFile

    try:
        erased = KeyFile(keys, create=False).erase(subject)
    except FileNotFoundError as error:
        raise ConfigError(f"there is no key store at {keys}") from error
    except sqlite3.Error as error:
        raise ConfigError(
            f"{keys} cannot be used as a key store ({error}): name the file of a `slotlog.KeyFile`"
        ) from error
    if not erased:
        raise ConfigError(f"{keys} has no key of this subject: it was erased before, or nothing of it was ever sealed")
    if json:
        print_json({"erased": True})
    else:
        print("the key is destroyed")
