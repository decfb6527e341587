"""Every command of clients by name: its kind, its keys, and how often it ran."""

from __future__ import annotations

from dataclasses import replace
from enum import IntEnum
from typing import Final

from engine.commands.registry import SPECS, Spec
from engine.native import READS
from resp.catalog.server_registry import CONTAINERS, SERVER_SPECS, WAITING, ServerSpec
from slotlog.events import event_head

_SPELLINGS_MAX: Final = 4096
_DIGITS_MAX: Final = 64  # of microseconds: more than any command can take
_FEW: Final = 64
_SHORT_WORDS: Final = {"O(1)": 1 << 30} | dict.fromkeys(("O(keys)", "O(fields)", "O(members)", "O(√n)"), _FEW)
"""By complexity of a read: with how many words it needs no fiber (ingest/applying/slicing/), which would take 2 µs."""


class CommandKind(IntEnum):
    """The kind of a command: how it is run."""

    READ = 0
    WRITE = 1
    SERVER = 2
    CONTAINER = 3


class Plan:
    """One command, or one subcommand of a container, with its counters.

    Attributes:
        name: upper case; `CLIENT|LIST` for a subcommand.
        shown: lower case, as error texts and statistics have it.
        spec: of the engine, for reads and writes.
        event_head: what the event of a write begins with.
        is_script: it runs a script, so its event carries the rights of a user who may not do everything.
        reading: how it is run when its script is known only to read; None: it always writes, or always reads.
        waiting: how it is run when it is to wait; None: it never is.
        counted: the plan that has the counters: itself, or that of which it is the reading or waiting form.
        returns_data: its reply may be large.
        is_general: a read that never takes the fast path. A write that does not has a `first_key` of -1.
        run_kind: of `engine.native.READS`; -1: it is none of them.
        first_key: index of the one key of a write among its arguments; -1 for none or many.
        short_words: a read of at most so many words never takes long, whatever its keys hold.
        takes_time: it may take long before it is on its way or answered, so it runs in a fiber.
        server: of the server, else.
        calls, seconds: how often it ran, and how long in all.
        rejected: how often it was refused before it ran.
        failed: how often it answered with an error.
        calls_by_digits: calls by how many binary digits their microseconds have. A list: adding to a dict takes 400
            more of the 31,000 instructions that a GET takes.
    """

    __slots__ = (
        "arguments_max",
        "arguments_min",
        "calls",
        "calls_by_digits",
        "counted",
        "event_head",
        "failed",
        "first_key",
        "is_general",
        "is_script",
        "kind",
        "name",
        "reading",
        "rejected",
        "returns_data",
        "run_kind",
        "seconds",
        "server",
        "short_words",
        "shown",
        "spec",
        "takes_time",
        "waiting",
    )

    def __init__(
        self, name: bytes, kind: CommandKind, spec: Spec | None = None, server: ServerSpec | None = None
    ) -> None:
        self.name = name
        self.shown = name.decode().lower()
        self.kind = kind
        self.event_head = event_head(name) if kind is CommandKind.WRITE else b""
        self.first_key = spec.first_key if spec is not None and not spec.many_keys else -1
        self.run_kind = READS.get(name, -1)
        self.spec = spec
        self.server = server
        self.is_script = self.is_general = spec is not None and spec.runs_others
        some = spec or server
        self.returns_data = kind is CommandKind.READ or (some is not None and some.large_reply)
        self.arguments_min = some.arguments_min if some else 0
        self.arguments_max = some.arguments_max if some else 1 << 30
        self.short_words = _SHORT_WORDS.get(spec.complexity, 0) if spec is not None else 0
        is_fast = server is not None and server.keys is None and "fast" in server.flags
        self.takes_time = not (kind is CommandKind.WRITE or is_fast)  # a write takes its time behind the log
        self.reading: Plan | None = None
        self.waiting: Plan | None = None
        self.counted = self
        self.reset()

    def reset(self) -> None:
        """Forget the counters, for CONFIG RESETSTAT."""
        self.calls = 0
        self.seconds = 0.0
        self.rejected = 0
        self.failed = 0
        self.calls_by_digits = [0] * _DIGITS_MAX

    @property
    def buckets(self) -> dict[int, int]:
        """Calls by the power of two of their microseconds, for LATENCY HISTOGRAM: those that there were."""
        return {digits: calls for digits, calls in enumerate(self.calls_by_digits) if calls}

    @property
    def write(self) -> bool:
        """Whether it may change the state."""
        return self.kind is CommandKind.WRITE or (self.server is not None and "write" in self.server.flags)

    @property
    def changes(self) -> bool:
        """Whether it may change the state, or needs an event."""
        return self.write or (self.server is not None and (self.server.appends or self.server.as_event is not None))

    def keys(self, args: list[bytes]) -> list[bytes]:
        """The keys among its arguments: what follows the name, or that of the subcommand."""
        if self.spec is not None:
            return self.spec.keys(args)
        return self.server.keys(args) if self.server is not None and self.server.keys is not None else []


def _reading(spec: Spec) -> Spec:
    """A command that is known to change nothing, as a read."""
    if spec.reads_as is None:
        return SPECS[spec.name + b"_RO"]
    return replace(spec, handler=spec.reads_as, write=False)


PlainWrite = tuple[Plan, bytes, bytes, int, int, int]
"""A write with one key and a small reply: its plan, and of that name, event_head, first_key, and how many arguments."""


class Plans:
    """All commands.

    Args:
        clustered: there are several partitions.

    Attributes:
        by_name: those that there are.
        by_spelling: for the hot path: upper case and what clients have sent so far.
        plain_writes: of these the writes with one key whose reply is small.
    """

    def __init__(self, *, clustered: bool = False) -> None:
        self.by_name: dict[bytes, Plan] = {}
        for name, spec in SPECS.items():
            if not spec.internal and name not in SERVER_SPECS:
                plan = self.by_name[name] = Plan(name, CommandKind.WRITE if spec.write else CommandKind.READ, spec)
                if clustered and (spec.keyless or spec.standalone or spec.patterns is not None):
                    plan.is_general, plan.first_key = True, -1
                if spec.only_reads is not None:
                    plan.reading = Plan(name, CommandKind.READ, _reading(spec))
                    plan.reading.counted = plan
        for name, server in WAITING.items():
            plan = self.by_name[name]
            plan.is_general = True
            plan.waiting = Plan(name, CommandKind.SERVER, server=server)
            plan.waiting.counted = plan
        for name, server in SERVER_SPECS.items():
            self.by_name[name] = Plan(name, CommandKind.SERVER, server=server)
        for name in CONTAINERS:
            if name not in self.by_name:
                self.by_name[name] = Plan(name, CommandKind.CONTAINER)
        self.by_spelling: dict[bytes, Plan] = {}
        self.plain_writes: dict[bytes, PlainWrite] = {}
        for name, plan in self.by_name.items():
            if b"|" not in name:
                self._learn(name, plan)

    def find(self, command: list[bytes]) -> Plan | None:
        """The plan for `command`; that of the subcommand where there is one; None for an unknown command."""
        name = command[0]
        plan = self.by_spelling.get(name)
        if plan is None:
            plan = self.by_name.get(name.upper()) if b"|" not in name else None
            if plan is not None and len(self.by_spelling) < _SPELLINGS_MAX:
                self._learn(name, plan)
        if plan is not None and len(command) > 1 and plan.name in CONTAINERS:
            return self.by_name.get(plan.name + b"|" + command[1].upper(), plan)
        return plan

    def _learn(self, spelled: bytes, plan: Plan) -> None:
        self.by_spelling[spelled] = plan
        if plan.kind is CommandKind.WRITE and plan.first_key >= 0 and not plan.returns_data:
            arguments = plan.first_key, plan.arguments_min, plan.arguments_max
            self.plain_writes[spelled] = (plan, plan.name, plan.event_head, *arguments)

    @property
    def calls(self) -> int:
        """How many commands ran."""
        return sum([plan.calls for plan in self.by_name.values()])

    @property
    def seconds(self) -> float:
        """How long all of them took."""
        return sum([plan.seconds for plan in self.by_name.values()])

    def reset(self) -> None:
        """Forget all counters."""
        for plan in self.by_name.values():
            plan.reset()
