"""Checks an event before anything of it runs.

Whatever is refused here can never be applied, whoever reads it: it becomes a dead letter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from engine.commands.registry import SPECS, Spec, find
from engine.errors import foreign_pattern
from engine.tables.system import Home
from slotlog.shared.errors import CROSS_SLOT, EventError
from slotlog.shared.limits import DATABASES
from slotlog.shared.slots import partition_of, pattern_slot, slot

Step = tuple[Spec, list[bytes]]
"""One command of a transaction, with its arguments."""


def pattern_refusal(spec: Spec, args: list[bytes]) -> str | None:
    """Why a topic of several partitions refuses the keys that a command finds by patterns; None when it does not."""
    if spec.patterns is None:
        return None
    home = slot(args[spec.first_key])
    for option, pattern in spec.patterns(args):
        itself = option == "GET" and pattern.partition(b"\0")[0] == b"#"  # no key
        if not itself and pattern_slot(pattern) != home:
            return foreign_pattern(option)
    return None


_NOT_FREE: Final = SPECS[b"GET"], 1, 0
"""Stands for a command that may not stand anywhere: no number of words is right for it."""


def _free_specs() -> dict[bytes, tuple[Spec, int, int]]:
    """The commands that may stand anywhere in a transaction of a topic of one partition, with least and most words."""
    return {
        name: (spec, spec.arguments_min + 1, spec.arguments_max + 1)
        for name, spec in SPECS.items()
        if spec.transactional and not spec.guarded
    }


class Placement:
    """The rules of one partition.

    Args:
        home: the partition.
        holds: whether a key is known to belong to it, which spares computing its slot.
    """

    def __init__(self, home: Home, holds: Callable[[bytes], bool]) -> None:
        self._home = home
        self._holds = holds
        self._clustered = home.partitions > 1
        self._free: dict[bytes, tuple[Spec, int, int]] = {} if self._clustered else _free_specs()

    def check_event(self, spec: Spec, args: list[bytes], db: int, session: bytes | None) -> None:
        """Refuse what cannot be an event of its own, or not in this partition.

        Raises:
            EventError: it is refused.
        """
        if not spec.alone:
            message = f"{spec.name.decode()} is no event: it stands in a transaction"
            raise EventError(message)
        if spec.sessional and session is None:
            message = f"{spec.name.decode()} needs a session"
            raise EventError(message)
        self._check_place(spec, args, db)

    def check_transaction(self, steps: list[list[bytes]], db: int) -> list[Step]:
        """Every command of an EXEC, checked whole: names, arity, keys; then each stands or falls alone.

        Raises:
            EventError: one of them is refused, so all of them are.
        """
        clustered = self._clustered
        if db or clustered:
            self._check_database(db)
        checked: list[Step] = []
        free = self._free
        for step in steps:  # most have nothing but their number of words to be asked for
            spec, least, most = free.get(step[0], _NOT_FREE)
            if not least <= len(step) <= most:
                break
            checked.append((spec, step[1:]))
        else:
            return checked
        checked.clear()
        names: list[bytes] = []
        for name, *args in steps:
            spec = SPECS.get(name) or find(name)
            if not spec.arguments_min <= len(args) <= spec.arguments_max:
                spec.check_arity(args)
            if not spec.transactional or (clustered and spec.keyless and not spec.sessional):
                message = f"{spec.name.decode()} cannot be part of a transaction"
                raise EventError(message)
            if spec.guarded or clustered:
                self._check_place(spec, args, db)
            if clustered:
                names += spec.keys(args)
            checked.append((spec, args))
        if names and len({slot(key) for key in names}) > 1:
            raise EventError(CROSS_SLOT)
        return checked

    def check_home(self, spec: Spec, args: list[bytes], db: int) -> None:
        """Refuse a database or keys that do not belong to this partition.

        Raises:
            EventError: they do not.
        """
        self._check_database(db)
        if not self._clustered:
            return
        if spec.many_keys:
            self._check_slots(spec.keys(args))
        elif spec.first_key >= 0 and not self._holds(args[spec.first_key]):
            self._check_slots([args[spec.first_key]])
        refusal = pattern_refusal(spec, args)
        if refusal is not None:
            raise EventError(refusal)

    def _check_place(self, spec: Spec, args: list[bytes], db: int) -> None:
        if spec.physical:
            message = f"{spec.name.decode()} reads what is physically there: it cannot be an event"
            raise EventError(message)
        if spec.standalone and self._clustered:
            message = f"ERR {spec.name.decode()} is not allowed in cluster mode"
            raise EventError(message)
        if self._clustered and spec.cluster_refusal is not None and (message := spec.cluster_refusal(args)):
            raise EventError(message)
        self.check_home(spec, args, db)

    def _check_database(self, db: int) -> None:
        if not self._clustered:
            if not 0 <= db < DATABASES:
                message = f"db {db} is out of range, there are {DATABASES}"
                raise EventError(message)
        elif db:
            message = f"db {db}: a topic of several partitions has database 0 alone"
            raise EventError(message)

    def _check_slots(self, keys: list[bytes]) -> None:
        if not keys:  # a script without keys belongs to whichever partition it is in
            return
        first = slot(keys[0])
        for key in keys:
            if slot(key) != first:
                raise EventError(CROSS_SLOT)
        expected = partition_of(first, self._home.partitions)
        if expected != self._home.partition:
            message = f"slot {first} belongs to partition {expected}, not {self._home.partition}: wrong partitioner"
            raise EventError(message)
