"""Runs the scripts of one partition: each of their commands is a step, as those of an EXEC are."""

from __future__ import annotations

from collections.abc import Callable, Container
from functools import partial
from typing import TYPE_CHECKING, Final

from engine.apply.admission import pattern_refusal
from engine.apply.records import Applied
from engine.apply.script_calls import ScriptCalls
from engine.apply.script_runs import ScriptRuns
from engine.apply.script_sources import ReadSources
from engine.batch.runner import Call
from engine.commands.registry import SPECS, Spec
from engine.commands.scripting.callable import REFUSED, WITHOUT_KEYS
from engine.commands.scripting.rights import Denial, Rights
from engine.errors import EXEC_TOO_LARGE, OUT_OF_MEMORY, CommandError
from engine.limits import EXEC_VALUE_BYTES_MAX
from engine.scripts.runtime import ScriptRuntime
from engine.values.replies import Reply
from engine.values.splitmix import SplitMix64
from slotlog.shared.errors import InvariantError
from slotlog.shared.slots import partition_of, slot

if TYPE_CHECKING:
    from engine.batch.transaction import Transaction
    from engine.tables.system import Home

UNKNOWN: Final = "ERR Unknown Redis command called from script"
_WRONG_ARITY: Final = "ERR Wrong number of args calling Redis command from script"
_REFUSED: Final = "ERR This Redis command is not allowed from script"
_WRITES: Final = "ERR Write commands are not allowed from read-only scripts."
_NOT_HERE: Final = "ERR Script attempted to access a non local key in a cluster node"
_CROSS_SLOT: Final = "ERR Script attempted to access keys that do not hash to the same slot"
_DENIED: Final = "ERR ACL failure in script: "
_DENIED_CODE: Final = "NOPERM"
"""What statistics show of such an error, as in Redis."""

_PHYSICAL: Final = "ERR {} reads what is physically there: a script that is an event cannot call it, EVAL_RO can"

RunCommand = Callable[[Spec, list[bytes], Applied], Reply]
Show = Callable[[int, list[bytes]], None]
"""Takes the database and the words of a command that has run."""

TakeCalls = Callable[[ScriptCalls], None]
"""Takes what a script has called that was no event."""


class ScriptRunner:
    """Implements `engine.batch.runner.Runner` and `engine.scripts.host.ScriptHost`.

    Args:
        tx: what commands run against.
        run_command: runs one of them, and tells what it changes.
        home: which partition this is.

    Attributes:
        applied: of the records that are being applied; None while a server reads.
        waiting: the offsets of those whose outcome somebody waits for.
        show: is told of each command that a read or one of those events runs; None: nobody wants to know.
        take_calls: takes what a read has called; None: nobody counts. What those events called stands in
            `Applied.script_calls`.
        keys_read: takes the keys that the commands of the next script read, if that is no event; None: nobody wants to
            know.
        clustered: whether there are other partitions.
        rights: of the user whose script runs; None: everything is allowed.
        memory_is_full: as `Runner` has it.
    """

    def __init__(self, tx: Transaction, run_command: RunCommand, home: Home) -> None:
        self.applied: Applied | None = None
        self.waiting: Container[int] = frozenset()
        self.show: Show | None = None
        self.take_calls: TakeCalls | None = None
        self._calls: ScriptCalls | None = None
        self.keys_read: dict[bytes, None] | None = None
        self._keys_read: dict[bytes, None] | None = None
        self.clustered = home.partitions > 1
        self._draw = 0
        self.rights: Rights | None = None
        self.memory_is_full = False
        self._may_grow = True
        self._tx = tx
        self._run_command = run_command
        self._home = home
        self._runs = ScriptRuns()
        self._sources = ReadSources()
        self._call: Call | None = None
        self._killed: bytes | None = None
        self._slot = -1

    # ------------------------------------------------------------------ scripts

    def check(self, sha: bytes, body: bytes) -> None:
        """Refuse a script that does not compile. Raises as `Runner.check`."""
        self._runs.runtime.check(sha, body)

    def functions_of(self, sha: bytes, body: bytes) -> list[tuple[bytes, bytes | None, int]]:
        """What the code of a library registers. Raises as `Runner.functions_of`."""
        return self._runs.read(lambda runtime: runtime.functions_of(sha, body, self))

    def remember(self, sha: bytes, source: bytes) -> None:
        """Keep the source of a read on the server, which changes no state, for the reads behind it."""
        if self.applied is None:
            self._sources.add(sha, source)

    def remembered(self, sha: bytes) -> bytes | None:
        """A source that a read on the server has brought; for an event, which must not depend on it, none."""
        return self._sources.get(sha) if self.applied is None else None

    def forget_reads(self) -> None:
        """Forget the sources that reads have brought: SCRIPT FLUSH."""
        self._sources.clear()

    def run(self, call: Call) -> Reply:
        """Run a script. Raises as `Runner.run`."""
        tx = self._tx
        db, step, self._slot = tx.db, (tx.offset, tx.draws), -1
        tx.draws += 1
        self._draw = tx.draws
        if call.keys and self.clustered:
            self._slot = slot(call.keys[0])
        self._call, self._may_grow = call, call.may_grow
        self._calls = self._counts()
        try:
            if self.applied is not None:
                return self._runs.event(step, partial(self._run_in, call=call))
            self._keys_read, self.keys_read = self.keys_read, None
            return self._runs.read(partial(self._run_in, call=call))
        finally:
            if self._calls is not None and self.applied is None and self.take_calls is not None:
                self.take_calls(self._calls)
            self._call = self._calls = self._killed = self._keys_read = None
            if tx.db != db:
                tx.select(db)

    @property
    def memory_bytes(self) -> int:
        """What Lua has allocated; 0 before the first script."""
        return self._runs.memory_bytes

    @property
    def running(self) -> Call | None:
        """The script that runs now, and is suspended for a moment."""
        return self._call

    def kill(self, text: str) -> None:
        """End the script that runs with this error, at its next pause. It must be a read: an event ends as any replay.

        Raises:
            InvariantError: an event runs.
        """
        if self.applied is not None:
            raise InvariantError("a script that is an event ends by itself")
        self._killed = text.encode()

    def pause(self) -> bytes | None:
        """The text of the error with which the script ends now, if it was killed."""
        return self._killed

    def forget_outcomes(self, next_offset: int) -> None:
        """As `ScriptRuns.forget`."""
        self._runs.forget(next_offset)

    def _run_in(self, runtime: ScriptRuntime, call: Call) -> Reply:
        return runtime.run(call.sha, call.body, call.keys, call.args, self, call.function)

    # ------------------------------------------------------------------ their commands

    def call(self, words: list[bytes]) -> Reply:
        """Run one command of the script.

        Raises:
            CommandError: its own, or it cannot be called.
        """
        assert self._call is not None, "a script runs"
        name, has_run = words[0].upper(), False
        try:
            simple = WITHOUT_KEYS.get(name)
            if simple is not None:
                self._check_rights(name, None, words[1:])
                reply = simple(self, words[1:])
                if self.show is not None:
                    self._tell(self.show, words)
            else:
                spec, args = self._find(name, words)
                name = spec.name
                self._check(spec, args)
                has_run = True
                try:
                    reply = self._step(spec, args)
                finally:
                    if self.show is not None:
                        self._tell(self.show, words)
                if spec.sorted_in_scripts:
                    reply = sorted(reply)
        except CommandError as error:
            if self._calls is not None:
                code = _DENIED_CODE if error.message.startswith(_DENIED) else error.message
                self._calls.note_error(name, code, has_run=has_run)
            raise
        if self._calls is not None:
            self._calls.calls[name] += 1
        return reply

    def _check(self, spec: Spec, args: list[bytes]) -> None:
        """Refuse what the script may not call so."""
        assert self._call is not None, "a script runs"
        if not spec.arguments_min <= len(args) <= spec.arguments_max:
            raise CommandError(_WRONG_ARITY)
        if self._call.reads_only and spec.changes_data:
            raise CommandError(_WRITES)
        if spec.physical and self.applied is not None and not spec.sorted_in_scripts:
            raise CommandError(_PHYSICAL.format(spec.name.decode().replace("|", " ")))
        self._check_rights(spec.name, spec, args)
        if spec.grows and not self._may_grow:
            raise CommandError(OUT_OF_MEMORY)
        if spec.changes_data:
            self._may_grow = True  # as in Redis: it cannot be stopped halfway
        if self.clustered:
            self._check_place(spec, args)
        if self._keys_read is not None and not spec.write:
            self._keys_read.update(dict.fromkeys(spec.keys(args)))

    def check_acl(self, words: list[bytes]) -> bool:
        """Whether the script's user may run this command. Raises CommandError: there is no such command."""
        name, args = words[0].upper(), words[1:]
        spec = None
        if name not in WITHOUT_KEYS:
            spec, args = self._find(name, words)
            name = spec.name
        return self._denial(name, spec, args) is None

    def log(self, level: int, text: bytes) -> None:
        """Nothing: a replay would say it again."""

    # ------------------------------------------------------------------ what their simple commands need

    @property
    def seed(self) -> int:
        """Of the random numbers of the script that runs: the draw of its record that was the next one."""
        return SplitMix64.below(self._home.partition, self._tx.offset, self._draw, 1 << 32)

    @property
    def now_ms(self) -> int:
        """Log time of the record."""
        return self._tx.now_ms

    def publish(self, channel: bytes, message: bytes, *, on_shard: bool) -> None:
        """Tell the listeners of a channel, once the record is committed.

        Raises:
            CommandError: the script may not write.
        """
        assert self._call is not None, "a script runs"
        if self._call.reads_only or self.applied is None:
            raise CommandError(_WRITES)
        self.applied.published.append((channel, message, on_shard))

    # ------------------------------------------------------------------ inside

    def _counts(self) -> ScriptCalls | None:
        """Where the commands of the script that begins are counted; None: nobody here has sent it."""
        applied = self.applied
        if applied is None:
            return None if self.take_calls is None else ScriptCalls()
        if self._tx.offset not in self.waiting:
            return None
        if applied.script_calls is None:
            applied.script_calls = ScriptCalls()
        return applied.script_calls

    def _tell(self, show: Show, words: list[bytes]) -> None:
        if self.applied is None or self._tx.offset in self.waiting:
            show(self._tx.db, words)

    def _find(self, name: bytes, words: list[bytes]) -> tuple[Spec, list[bytes]]:
        """The command, that of a container included, and its arguments."""
        spec, args = SPECS.get(name), words[1:]
        if spec is None and len(words) > 1:
            spec, args = SPECS.get(b"%b|%b" % (name, words[1].upper())), words[2:]
        if spec is None:
            raise CommandError(_REFUSED if name in REFUSED else UNKNOWN)
        if spec.internal or spec.sessional or "noscript" in (spec.flags or ()):
            raise CommandError(_REFUSED)
        return spec, args

    def _denial(self, name: bytes, spec: Spec | None, args: list[bytes]) -> Denial | None:
        return None if self.rights is None else self.rights.denial(name, spec, args, self._tx.db)

    def _check_rights(self, name: bytes, spec: Spec | None, args: list[bytes]) -> None:
        denied = self._denial(name, spec, args)
        if denied is not None:
            if self._calls is not None and self.rights is not None:
                self._calls.note_denial(self._tx.offset, self.rights.user, denied.reason, denied.denied)
            raise CommandError(_DENIED + denied.message)

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
            assert self._call is not None, "a script runs"
            if self._call.one_slot and self._slot not in {-1, number}:
                raise CommandError(_CROSS_SLOT)
            self._slot = number
        if (refused := pattern_refusal(spec, args)) is not None:
            raise CommandError(refused)

    def _step(self, spec: Spec, args: list[bytes]) -> Reply:
        applied = self.applied
        if applied is None:
            return spec.handler(self._tx, args)
        applied.commands[spec.name] += 1
        try:
            if self._tx.written_bytes > EXEC_VALUE_BYTES_MAX:
                raise CommandError(EXEC_TOO_LARGE)  # noqa: TRY301 - a refusal like any other
            return self._run_command(spec, args, applied)
        except CommandError as error:
            applied.reject(self._tx.offset, spec.name, error)
            raise
