"""The plain model's commands on streams, with the options that tests send, in their order."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from engine.model import STREAM
from tests.model_base import RejectedError
from tests.model_stream import UNKNOWN, ZERO, Group, Id, Pending, Stream, parse

if TYPE_CHECKING:
    from tests.model import Model


def xadd(model: Model, name: bytes, *words: bytes) -> None:
    """Options, an id, and one field with its value."""
    *options, text, _, _ = words
    entry = model.typed(name, STREAM)
    if entry is None and b"NOMKSTREAM" in options:
        return
    last: Id = ZERO if entry is None else entry.value.last
    entry_id = _new_id(text, last, model.clock_ms)
    if entry_id <= last:
        raise RejectedError
    stream: Stream = model.make(name, STREAM, Stream).value
    stream.add(entry_id, list(words[-2:]))
    if {b"MAXLEN", b"MINID"} & set(options):
        stream.trim(options)


def _new_id(text: bytes, last: Id, now_ms: int) -> Id:
    if text == b"*":
        return (now_ms, 0) if now_ms > last[0] else (last[0], last[1] + 1)
    if text.endswith(b"-*"):
        ms = int(text[:-2])
        return (ms, last[1] + 1) if ms == last[0] else (ms, 0)
    return parse(text)


def xdel(model: Model, name: bytes, *ids: bytes) -> None:
    """Any number of ids."""
    if stream := _stream(model, name):
        stream.delete(list(map(parse, ids)))


def xtrim(model: Model, name: bytes, *words: bytes) -> None:
    """As XADD's options."""
    if stream := _stream(model, name):
        stream.trim(words)


def xsetid(model: Model, name: bytes, text: bytes) -> None:
    """The id alone."""
    stream, last = _stream(model, name), parse(text)
    if stream is None or last < stream.max_deleted or (stream.entries and last < max(stream.entries)):
        raise RejectedError
    stream.last = last


def xdelex(model: Model, name: bytes, policy: bytes, _ids: bytes, _count: bytes, *ids: bytes) -> None:
    """The policy first."""
    if stream := _stream(model, name):
        for text in ids:
            stream.delete_with(policy, parse(text))


def xackdel(model: Model, name: bytes, group: bytes, policy: bytes, _ids: bytes, _count: bytes, *ids: bytes) -> None:
    """The policy first."""
    if stream := _stream(model, name):
        for text in ids:
            stream.acknowledge_and_delete(group, policy, parse(text))


def xgroup_create(model: Model, name: bytes, group: bytes, text: bytes, *options: bytes) -> None:
    """With MKSTREAM or without."""
    entry = model.typed(name, STREAM)
    if (entry is None and b"MKSTREAM" not in options) or (entry is not None and group in entry.value.groups):
        raise RejectedError
    stream: Stream = model.make(name, STREAM, Stream).value
    stream.groups[group] = Group(stream.last if text == b"$" else parse(text), UNKNOWN)


def xgroup_setid(model: Model, name: bytes, group: bytes, text: bytes) -> None:
    """The id alone."""
    stream, found = _group(model, name, group)
    found.last, found.read = stream.last if text == b"$" else parse(text), UNKNOWN


def xgroup_destroy(model: Model, name: bytes, group: bytes) -> None:
    """A group that is there, or not."""
    stream = _stream(model, name)
    if stream is None:
        raise RejectedError
    stream.groups.pop(group, None)


def xgroup_createconsumer(model: Model, name: bytes, group: bytes, consumer: bytes) -> None:
    """One that is there, or not."""
    _group(model, name, group)[1].consumers.setdefault(consumer, [model.clock_ms, -1])


def xgroup_delconsumer(model: Model, name: bytes, group: bytes, consumer: bytes) -> None:
    """One that is there, or not."""
    _, found = _group(model, name, group)
    found.consumers.pop(consumer, None)
    found.pending = {entry_id: each for entry_id, each in found.pending.items() if each.consumer != consumer}


def xreadgroup(model: Model, _group_word: bytes, group: bytes, consumer: bytes, *words: bytes) -> None:
    """COUNT or NOACK, STREAMS, one key and one id."""
    *options, _, name, text = words
    count = int(options[options.index(b"COUNT") + 1]) if b"COUNT" in options else None
    stream, found = _group(model, name, group)
    changed = consumer not in found.consumers
    times = found.consumers.setdefault(consumer, [model.clock_ms, -1])
    if text == b">":
        for entry_id in [each for each in stream.entries if each > found.last][:count]:
            stream.read(found, entry_id)
            changed = True
            if b"NOACK" not in options:
                found.pending[entry_id] = Pending(consumer, model.clock_ms, 1)
                times[1] = model.clock_ms
    else:
        after, pending = parse(text), found.pending
        for entry_id in sorted(each for each in pending if each > after and pending[each].consumer == consumer)[:count]:
            if entry_id in stream.entries:
                pending[entry_id] = Pending(consumer, model.clock_ms, pending[entry_id].deliveries + 1)
                changed = True
    if changed:
        times[0] = model.clock_ms


def xack(model: Model, name: bytes, group: bytes, *ids: bytes) -> None:
    """Any number of ids."""
    stream = _stream(model, name)
    if stream is not None and group in stream.groups:
        for text in ids:
            stream.groups[group].pending.pop(parse(text), None)


def xclaim(model: Model, name: bytes, group: bytes, consumer: bytes, min_idle_ms: bytes, *words: bytes) -> None:
    """Ids, and FORCE or JUSTID behind them."""
    stream, found = _group(model, name, group)
    times = found.see(consumer, model.clock_ms)
    for text in words:
        if text in {b"FORCE", b"JUSTID"}:
            continue
        entry_id = parse(text)
        old = found.pending.get(entry_id)
        if entry_id not in stream.entries:
            found.pending.pop(entry_id, None)
            continue
        if old is None:
            if b"FORCE" not in words:
                continue
            old = Pending(b"", model.clock_ms, 1)
        elif int(min_idle_ms) and model.clock_ms - old.delivered_ms < int(min_idle_ms):
            continue
        found.pending[entry_id] = Pending(consumer, model.clock_ms, old.deliveries + (b"JUSTID" not in words))
        times[1] = model.clock_ms


def xautoclaim(model: Model, name: bytes, group: bytes, consumer: bytes, min_idle_ms: bytes, *words: bytes) -> None:
    """The id to begin from, COUNT, and JUSTID behind it or not."""
    stream, found = _group(model, name, group)
    times, count, taken = found.see(consumer, model.clock_ms), int(words[2]), 0
    for looked_at, entry_id in enumerate(sorted(each for each in found.pending if each >= parse(words[0]))):
        if looked_at == 10 * count or taken == count:
            break
        old = found.pending[entry_id]
        if entry_id not in stream.entries:
            del found.pending[entry_id]
            taken += 1
        elif not int(min_idle_ms) or model.clock_ms - old.delivered_ms >= int(min_idle_ms):
            found.pending[entry_id] = Pending(consumer, model.clock_ms, old.deliveries + (b"JUSTID" not in words))
            times[1] = model.clock_ms
            taken += 1


def _stream(model: Model, name: bytes) -> Stream | None:
    entry = model.typed(name, STREAM)
    return None if entry is None else entry.value


def _group(model: Model, name: bytes, group: bytes) -> tuple[Stream, Group]:
    """RejectedError when there is none."""
    stream = _stream(model, name)
    if stream is None or group not in stream.groups:
        raise RejectedError
    return stream, stream.groups[group]


COMMANDS: Final[dict[bytes, Callable[..., None]]] = {
    b"XACK": xack,
    b"XACKDEL": xackdel,
    b"XADD": xadd,
    b"XAUTOCLAIM": xautoclaim,
    b"XCLAIM": xclaim,
    b"XDEL": xdel,
    b"XDELEX": xdelex,
    b"XGROUP|CREATE": xgroup_create,
    b"XGROUP|CREATECONSUMER": xgroup_createconsumer,
    b"XGROUP|DELCONSUMER": xgroup_delconsumer,
    b"XGROUP|DESTROY": xgroup_destroy,
    b"XGROUP|SETID": xgroup_setid,
    b"XREADGROUP": xreadgroup,
    b"XSETID": xsetid,
    b"XTRIM": xtrim,
}
