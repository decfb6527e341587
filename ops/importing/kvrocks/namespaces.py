"""Maps Kvrocks' namespaces to logical databases and back.

Database 0 is the default namespace. Database n is the namespace `dbn`, as in a Kvrocks with `redis-databases`, whose
SELECT means the same. Users may name other ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from engine.layouts.kvrocks.keys import DEFAULT_NAMESPACE
from ops.config import ConfigError
from slotlog.shared.limits import DATABASES

OWN: Final[Mapping[int, bytes]] = {0: DEFAULT_NAMESPACE} | {db: b"db%d" % db for db in range(1, DATABASES)}
"""The namespace of each database."""


def parse_namespaces(texts: Iterable[str]) -> dict[bytes, int]:
    """The database of each namespace: as in OWN, and as `texts` of the form NAME=DB say.

    Raises:
        ConfigError: one of them does not have that form.
    """
    databases = {namespace: db for db, namespace in OWN.items()}
    for text in texts:
        match = re.fullmatch(r"(.+)=([0-9]{1,2})", text, re.DOTALL)
        if match is None or int(match[2]) >= DATABASES:
            raise ConfigError(f"--namespace {text!r} is not NAME=DATABASE, with a database from 0 to {DATABASES - 1}")
        databases[match[1].encode()] = int(match[2])
    return databases
