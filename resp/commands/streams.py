"""XREAD and XREADGROUP with BLOCK: the engine's commands, which wait. See `resp.blocking.streams`."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from engine.commands.registry import SPECS
from engine.commands.streams.read_options import ReadOptions, read_options_of
from engine.commands.streams.reading import fixed_ids
from engine.model import STREAM
from engine.values.replies import NIL_ARRAY, Reply
from resp.blocking.waiters import Wish
from resp.catalog.server_registry import WAITING, ServerSpec
from resp.clients.authorization import denial
from resp.clients.running.tracked import note_read

if TYPE_CHECKING:
    from resp.clients.session import Session

_XREAD: Final = SPECS[b"XREAD"]
_FIXED_IDS: Final = replace(_XREAD, handler=fixed_ids)
_ALL: Final = 1 << 62
_MS_PER_S: Final = 1000


def _xread(session: Session, args: list[bytes]) -> Reply | Coroutine[Any, Any, Reply]:
    """What is there already, or else what comes: above the ids as they are now."""
    blocked, options = session.server.blocked, _options(session, args, has_group=False)
    pipeline = session.server.router.pipeline_of(options.keys)
    fixed: Any = blocked.elements.read(pipeline, _FIXED_IDS, args, session.db)
    reply = blocked.elements.read(pipeline, _XREAD, fixed, session.db)
    if reply is NIL_ARRAY:
        return _read_later(session, options, Wish(STREAM, options.keys, [b"XREAD", *fixed], _same))
    note_read(session, pipeline.partition, options.keys, pipeline.machine.next_offset)
    return reply


def _read_later(session: Session, options: ReadOptions, wish: Wish) -> Coroutine[Any, Any, Reply]:
    """Wait; a client that tracks what it reads tracks these keys, as of before the read."""
    pipeline = session.server.router.pipeline_of(wish.keys)
    offset, waiting = pipeline.machine.next_offset, _wait(session, options, wish)

    async def noted() -> Reply:
        reply = await waiting
        note_read(session, pipeline.partition, wish.keys, offset)
        return reply

    return noted()


def _xreadgroup(session: Session, args: list[bytes]) -> Reply | Coroutine[Any, Any, Reply]:
    """What the group has not delivered, or else what comes."""
    options = _options(session, args, has_group=True)
    event = [b"XREADGROUP", *args]
    wish = Wish(STREAM, options.keys, event, _same, wanted=options.most or _ALL, group=options.group)
    return _wait(session, options, wish)


def _wait(session: Session, options: ReadOptions, wish: Wish) -> Coroutine[Any, Any, Reply]:
    plan, command = session.served_plan, session.served_command
    assert plan is not None
    assert options.block_ms is not None
    refusal = partial(denial, session.server, session, plan, command, command[1:])
    return session.server.blocked.wait(session, wish, options.block_ms / _MS_PER_S, refusal)


def _options(session: Session, args: list[bytes], *, has_group: bool) -> ReadOptions:
    return read_options_of(args, session.server.wall_ms, has_group=has_group)


def _same(reply: Reply) -> Reply:
    return reply


def _register(name: bytes, handler: Callable[[Session, list[bytes]], Any]) -> None:
    spec = SPECS[name]
    WAITING[name] = ServerSpec(
        name=name,
        handler=handler,
        usage=spec.usage,
        arguments_min=spec.arguments_min,
        arguments_max=spec.arguments_max,
        container=False,
        access=spec.access,
        group=spec.group,
        since=spec.since,
        complexity=spec.complexity,
        flags=spec.flags or (),
        categories=spec.categories or (),
        large_reply=True,
        keys=spec.keys,
    )


_register(b"XREAD", _xread)
_register(b"XREADGROUP", _xreadgroup)
