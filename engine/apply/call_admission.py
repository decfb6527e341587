"""Decides which commands a script may call, and with which keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from engine.apply.admission import pattern_refusal
from engine.batch.runner import Call
from engine.commands.registry import SPECS, Spec
from engine.commands.scripting.callable import REFUSED
from engine.commands.scripting.rights import Rights
from engine.errors import OUT_OF_MEMORY, CommandError
from engine.tables.system import RULES_OF_SCANS_IN_SCRIPTS
from slotlog.shared.slots import partition_of, slot

if TYPE_CHECKING:
    from engine.apply.script_calls import ScriptCalls
    from engine.batch.transaction import Transaction
    from engine.tables.system import Home

_UNKNOWN: Final = "ERR Unknown Redis command called from script"
DENIED: Final = "ERR ACL failure in script: "
_WRONG_ARITY: Final = "ERR Wrong number of args calling Redis command from script"
_REFUSED: Final = "ERR This Redis command is not allowed from script"
WRITES: Final = "ERR Write commands are not allowed from read-only scripts."
_NOT_HERE: Final = "ERR Script attempted to access a non local key in a cluster node"
_CROSS_SLOT: Final = "ERR Script attempted to access keys that do not hash to the same slot"
_PHYSICAL: Final = "ERR {} reads what is physically there: a script that is an event cannot call it, EVAL_RO can"


def find_command(name: bytes, words: list[bytes]) -> tuple[Spec, list[bytes]]:
    """The command that a script calls, that of a container included, and its arguments.

    Raises:
        CommandError: there is none, or no script may call it.
    """
    spec, args = SPECS.get(name), words[1:]
    if spec is None and len(words) > 1:
        spec, args = SPECS.get(b"%b|%b" % (name, words[1].upper())), words[2:]
    if spec is None:
        raise CommandError(_REFUSED if name in REFUSED else _UNKNOWN)
    if spec.internal or spec.sessional or "noscript" in (spec.flags or ()):
        raise CommandError(_REFUSED)
    return spec, args


class CallAdmission:
    """The admission of commands that one run of a script calls.

    Args:
        call: the run.
        tx: what its commands run against.
        home: in which partition it runs.
        rights: of its user; None: everything is allowed.
        calls: takes what was denied to it; None: nobody counts.
        keys_read: takes the keys that its commands read; None: nobody wants to know.
        is_event: it is an event, not a read: its outcome must not depend on what is physically there.
    """

    __slots__ = (
        "_calls", "_clustered", "_home", "_is_event", "_keys_read", "_may_grow", "_rights", "_slot", "_tx", "call",
    )  # fmt: skip

    def __init__(
        self,
        call: Call,
        tx: Transaction,
        home: Home,
        rights: Rights | None,
        calls: ScriptCalls | None,
        keys_read: dict[bytes, None] | None,
        *,
        is_event: bool,
    ) -> None:
        self.call = call
        self._tx = tx
        self._home = home
        self._is_event = is_event
        self._rights = rights
        self._calls = calls
        self._keys_read = keys_read
        self._may_grow = call.may_grow
        self._clustered = home.partitions > 1
        self._slot = slot(call.keys[0]) if call.keys and self._clustered else -1

    def check(self, spec: Spec, args: list[bytes]) -> None:
        """Refuse what the script may not call so.

        Raises:
            CommandError: it may not.
        """
        if not spec.arguments_min <= len(args) <= spec.arguments_max:
            raise CommandError(_WRONG_ARITY)
        if self.call.reads_only and spec.changes_data:
            raise CommandError(WRITES)
        if spec.physical and self._is_event and not self._is_same_at_replay(spec):
            raise CommandError(_PHYSICAL.format(spec.name.decode().replace("|", " ")))
        self.check_rights(spec.name, spec, args)
        if spec.grows and not self._may_grow:
            raise CommandError(OUT_OF_MEMORY)
        if spec.changes_data:
            self._may_grow = True  # as in Redis: it cannot be stopped halfway
        if self._clustered:
            self._check_place(spec, args)
        if self._keys_read is not None and not spec.write:
            self._keys_read.update(dict.fromkeys(spec.keys(args)))

    def _is_same_at_replay(self, spec: Spec) -> bool:
        """Whether a command that reads what is physically there gives an event's script something else."""
        return spec.sorted_in_scripts or (spec.whole_in_scripts and self._tx.rules >= RULES_OF_SCANS_IN_SCRIPTS)

    def check_rights(self, name: bytes, spec: Spec | None, args: list[bytes]) -> None:
        """Refuse what the script's user may not do.

        Raises:
            CommandError: the user may not.
        """
        rights = self._rights
        if rights is None:
            return
        denied = rights.denial(name, spec, args, self._tx.db)
        if denied is not None:
            if self._calls is not None:
                self._calls.note_denial(self._tx.offset, rights.user, denied.reason, denied.denied)
            raise CommandError(DENIED + denied.message)

    def _check_place(self, spec: Spec, args: list[bytes]) -> None:
        """Refuse keys of another partition, and of another slot than those before."""
        if spec.standalone:
            raise CommandError(f"ERR {spec.name.decode()} is not allowed in cluster mode")
        if spec.cluster_refusal is not None and (refusal := spec.cluster_refusal(args)):
            raise CommandError(refusal)
        slots = list(dict.fromkeys(map(slot, spec.keys(args))))
        if len(slots) > 1:
            raise CommandError(_CROSS_SLOT)
        for number in slots:
            if partition_of(number, self._home.partitions) != self._home.partition:
                raise CommandError(_NOT_HERE)
            if self.call.one_slot and self._slot not in {-1, number}:
                raise CommandError(_CROSS_SLOT)
            self._slot = number
        if (refused := pattern_refusal(spec, args)) is not None:
            raise CommandError(refused)
