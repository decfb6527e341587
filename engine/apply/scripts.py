"""Runs the scripts of one partition: each of their commands is a step, as those of an EXEC are."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import TYPE_CHECKING, Final

from engine.apply.call_admission import DENIED, WRITES, CallAdmission, find_command
from engine.apply.records import Applied
from engine.apply.script_calls import CallTimer, ScriptCalls
from engine.apply.script_runs import ScriptRuns
from engine.apply.script_sources import ReadSources
from engine.batch.runner import Call
from engine.commands.registry import Spec
from engine.commands.scripting.callable import WITHOUT_KEYS
from engine.commands.scripting.rights import Rights
from engine.errors import EXEC_TOO_LARGE, CommandError
from engine.limits import EXEC_VALUE_BYTES_MAX
from engine.scripts.runtime import ScriptRuntime
from engine.values.replies import Reply
from engine.values.splitmix import SplitMix64
from slotlog.shared.errors import InvariantError

if TYPE_CHECKING:
    from engine.batch.transaction import Transaction
    from engine.tables.system import Home

_DENIED_CODE: Final = "NOPERM"
"""What statistics show of such an error, as in Redis."""

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
        timer: measures the commands that are counted; None: nobody measures.
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
        self.timer: CallTimer | None = None
        self._calls: ScriptCalls | None = None
        self.keys_read: dict[bytes, None] | None = None
        self.clustered = home.partitions > 1
        self._draw = 0
        self.rights: Rights | None = None
        self.memory_is_full = False
        self._tx = tx
        self._run_command = run_command
        self._home = home
        self._runs = ScriptRuns()
        self._sources = ReadSources()
        self._admission: CallAdmission | None = None
        self._killed: bytes | None = None

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
        db, step, is_event = tx.db, (tx.offset, tx.draws), self.applied is not None
        tx.draws += 1
        self._draw = tx.draws
        self._calls = self._counts()
        keys_read = None
        if not is_event:
            keys_read, self.keys_read = self.keys_read, None
        self._admission = CallAdmission(call, tx, self._home, self.rights, self._calls, keys_read, is_event=is_event)

        def run(runtime: ScriptRuntime) -> Reply:
            return runtime.run(call.sha, call.body, call.keys, call.args, self, call.function)

        try:
            return self._runs.event(step, run) if is_event else self._runs.read(run)
        finally:
            if self._calls is not None and self.applied is None and self.take_calls is not None:
                self.take_calls(self._calls)
            self._admission = self._calls = self._killed = None
            if tx.db != db:
                tx.select(db)

    @property
    def memory_bytes(self) -> int:
        """What Lua has allocated; 0 before the first script."""
        return self._runs.memory_bytes

    @property
    def running(self) -> Call | None:
        """The script that runs now, and is suspended for a moment."""
        return None if self._admission is None else self._admission.call

    @property
    def runs_event(self) -> bool:
        """Whether a script that is an event runs now."""
        return self._admission is not None and self.applied is not None

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

    # ------------------------------------------------------------------ their commands

    def call(self, words: list[bytes]) -> Reply:
        """Run one command of the script.

        Raises:
            CommandError: its own, or it cannot be called.
        """
        admission = self._admission
        assert admission is not None, "a script runs"
        name, has_run = words[0].upper(), False
        timer = None if self._calls is None else self.timer
        began = 0.0
        try:
            simple = WITHOUT_KEYS.get(name)
            if simple is not None:
                admission.check_rights(name, None, words[1:])
                if timer is not None:
                    began = timer.begin()
                reply = simple(self, words[1:])
                if timer is not None:
                    timer.end(began, words)
                if self.show is not None:
                    self._tell(self.show, words)
            else:
                spec, args = find_command(name, words)
                name = spec.name
                admission.check(spec, args)
                has_run = True
                if timer is not None:
                    began = timer.begin()
                try:
                    reply = self._step(spec, args)
                finally:
                    if timer is not None:
                        timer.end(began, words)
                    if self.show is not None:
                        self._tell(self.show, words)
                if spec.sorted_in_scripts:
                    reply = sorted(reply)
        except CommandError as error:
            if self._calls is not None:
                code = _DENIED_CODE if error.message.startswith(DENIED) else error.message
                self._calls.note_error(name, code, has_run=has_run)
            raise
        if self._calls is not None:
            self._calls.calls[name] += 1
        return reply

    def check_acl(self, words: list[bytes]) -> bool:
        """Whether the script's user may run this command. Raises CommandError: there is no such command."""
        name, args = words[0].upper(), words[1:]
        spec = None
        if name not in WITHOUT_KEYS:
            spec, args = find_command(name, words)
            name = spec.name
        return self.rights is None or self.rights.denial(name, spec, args, self._tx.db) is None

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
        assert self._admission is not None, "a script runs"
        if self._admission.call.reads_only or self.applied is None:
            raise CommandError(WRITES)
        self.applied.published.append((self._tx.offset, channel, message, on_shard))

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

    def _step(self, spec: Spec, args: list[bytes]) -> Reply:
        applied = self.applied
        if applied is None:
            return spec.handler(self._tx, args)
        applied.ran.append(spec.name)
        try:
            if self._tx.written_bytes > EXEC_VALUE_BYTES_MAX:
                raise CommandError(EXEC_TOO_LARGE)  # noqa: TRY301 - a refusal like any other
            return self._run_command(spec, args, applied)
        except CommandError as error:
            applied.reject(self._tx.offset, spec.name, error)
            raise
