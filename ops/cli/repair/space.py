"""`slotlog space`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ops.cli.options import (
    Data,
    Json,
    LogUrl,
    StateOwn,
    StatePartitions,
    StateTopic,
    end_with_damaged,
    listed,
    named,
    print_json,
    print_note,
    print_standings,
    reports_errors,
)
from slotlog.wording import sized

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ops.config import Settings
    from ops.state.reports.space import Space
    from ops.state.reports.space_keys import KeySizes, LargeKey, Share, SpaceOptions

_NAME_WIDTH = 30
_WIDTHS = (15, 15, 17)
_DURATIONS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))


@reports_errors
def space(
    *,
    data: Data = None,
    log: LogUrl = None,
    topic: StateTopic = None,
    partitions: StatePartitions = None,
    own: StateOwn = None,
    sample: Annotated[
        int, typer.Option("--sample", min=1, max=1_000_000, metavar="N", help="Keys to measure in a partition.")
    ] = 1000,
    top: Annotated[
        int, typer.Option("--top", min=0, max=1000, metavar="N", help="How many prefixes and largest keys to print.")
    ] = 10,
    delimiter: Annotated[
        str, typer.Option("--delimiter", metavar="TEXT", help="Text that ends the prefix of a key.")
    ] = ":",
    json: Json = False,
) -> None:
    """Print what uses the disk space of a state: files, data that waits for cleaning, types, prefixes, largest keys.

    It only reads. A service may run meanwhile: the report is about the state at the moment when it was opened. It reads
    every metadata record. It measures elements only of every n-th key in the order of slots, and of the keys that seem
    to be the largest. Bytes by type, prefix and key are sizes of records before compression. Damaged partitions are
    left out: they are named at the end, and the exit code is 1.

    Example: slotlog space --data .data --top 20
    """
    from ops.logging import configure_logging
    from ops.state.opening.recorded import load_state_settings
    from ops.state.reports.space_keys import SpaceOptions

    if not delimiter:
        raise typer.BadParameter("an empty one ends no prefix", param_hint="--delimiter")
    settings = load_state_settings(data=data, log=log, topic=topic, partitions=partitions, own=own)
    configure_logging(settings.log_level)
    _report(settings, SpaceOptions(sample, top, delimiter.encode()), json=json)


def _report(settings: Settings, options: SpaceOptions, *, json: bool) -> None:
    """Read the partitions that are there, and print what was found."""
    from ops.state.opening.damaged import read_each
    from ops.state.opening.recorded import presence
    from ops.state.reports.space import space_of, sum_of
    from ops.state.reports.standing import log_ends, standing_of

    here, missing = presence(settings)
    top, ends = options.top, log_ends(settings, here)

    def read(partition: int) -> Space:
        among = f" ({here.index(partition) + 1} of {len(here)})" if len(here) > 1 else ""
        return space_of(settings, partition, options, among)

    spaces, damaged = read_each(here, read)
    standings = [standing_of(settings, ends, each.partition, each.next_offset) for each in spaces]
    total = sum_of(spaces, top)
    if json:
        facts = [
            {"partition": each.partition, "next_offset": each.next_offset, **at.facts(), **_facts(each, top)}
            for each, at in zip(spaces, standings, strict=True)
        ]
        print_json({"total": _facts(total, top), "partitions": facts, "missing": missing, "damaged": named(damaged)})
    else:
        if missing:
            print_note(f"{settings.data} has no state of {listed('partition', missing)}")
        _print_files(total, spaces)
        _print_keys(total.keys, top, several=len(here) > 1)
    print_standings(standings, ends)
    end_with_damaged(damaged, json=json)


# ------------------------------------------------------------------ for people


def _print_files(total: Space, spaces: list[Space]) -> None:
    _table(
        ("column family", "on disk", "live, estimate", "records, estimate"),
        [
            *(
                (name, sized(each.bytes), sized(each.live_bytes), each.records)
                for name, each in sorted(total.families.items())
            ),
            ("write-ahead log", sized(total.wal_bytes), "", ""),
            ("total", sized(total.bytes), "", ""),
        ],
    )
    print(f"reclaimable: about {sized(total.reclaimable_bytes)} (estimate)")
    graves, backlog = total.graveyard, total.backlog
    print(
        f"graveyard:   {_several(graves.collections, 'collection')}, {_several(graves.elements, 'element')}"
        + (f", the oldest dead for {_duration(graves.age_ms)}" if graves.collections else "")
    )
    print(
        f"expiry:      {_several(backlog.keys, 'key')} due"
        + (f", for up to {_duration(backlog.behind_ms)} by the log's clock" if backlog.keys else "")
    )
    if len(spaces) > 1:
        print()
        _table(
            ("partition", "keys", "on disk", "reclaimable"),
            [
                (str(each.partition), each.keys.keys, sized(each.bytes), sized(each.reclaimable_bytes))
                for each in spaces
            ],
        )


def _print_keys(keys: KeySizes, top: int, *, several: bool) -> None:
    said = "\nSizes by type, prefix and key are before compression"
    if keys.sampled == keys.keys:
        print(f"{said}; of all {_several(keys.keys, 'key')}.")
    else:
        every = f"every {keys.every:,}th" if keys.every else "evenly spread"
        where = " of each partition" if several else ""
        print(f"{said}, estimated from a sample:")
        print(f"{keys.sampled:,} of {_several(keys.keys, 'key')}, {every} in the order of slots{where},")
        print("and those that seem the largest.")
    if not keys.keys:
        return
    print()
    _table(
        ("type", "keys", "elements", "size, estimate"),
        [(name, each.keys, each.elements, sized(each.bytes)) for name, each in sorted(keys.types.items())],
    )
    if not top:
        return
    shares = keys.prefixes_by_bytes()
    print()
    _table(
        ("prefix", "", "keys, estimate", "size, estimate"),
        [(_shown(prefix), "", share.keys, sized(share.bytes)) for prefix, share in shares[:top]],
    )
    if len(shares) > top:
        print(f"and {_several(len(shares) - top, 'more prefix', 'more prefixes')} in the sample")
    print()
    _table(
        ("largest key", "type", "elements", "size, ~ estimate"),
        [
            (
                _shown(each.name, each.db),
                each.type,
                each.elements,
                f"{'' if each.is_exact else '~'}{sized(each.stored_bytes)}",
            )
            for each in keys.largest
        ],
    )


def _table(titles: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> None:
    """Columns that fit into 80 characters: a name to the left, the rest to the right."""
    for first, *cells in [titles, *rows]:
        texts = [cell if isinstance(cell, str) else f"{round(cell):,}" for cell in cells]
        columns = zip(texts, _WIDTHS, strict=True)
        print((f"{first:<{_NAME_WIDTH}}" + "".join(f" {text:>{width}}" for text, width in columns)).rstrip())


def _several(number: int, noun: str, nouns: str = "") -> str:
    """`1 key`, `2,000 keys`."""
    return f"{number:,} {noun if number == 1 else nouns or f'{noun}s'}"


def _duration(milliseconds: int) -> str:
    """In its largest unit: `3 h`."""
    for unit_ms, unit in _DURATIONS:
        if milliseconds >= unit_ms:
            return f"{milliseconds // unit_ms} {unit}"
    return f"{milliseconds} ms"


def _shown(name: bytes | None, db: int = 0) -> str:
    """A key or prefix as it fits into its column; None is what has no prefix."""
    from ops.cli.reply_text import quoted

    if name is None:
        return "(none)"
    where = f" db {db}" if db else ""
    text, room = quoted(name), _NAME_WIDTH - len(where)
    return (text if len(text) <= room else f"{text[: room - 1]}…") + where


# ------------------------------------------------------------------ for programs


def _facts(space: Space, top: int) -> dict[str, Any]:
    keys = space.keys
    return {
        "bytes": space.bytes,
        "wal_bytes": space.wal_bytes,
        "reclaimable_bytes_estimate": space.reclaimable_bytes,
        "column_families": {
            name: {"bytes": each.bytes, "live_bytes_estimate": each.live_bytes, "records_estimate": each.records}
            for name, each in sorted(space.families.items())
        },
        "graveyard": space.graveyard._asdict(),
        "expiry_backlog": space.backlog._asdict(),
        "keys": keys.keys,
        "sample": {"keys": keys.sampled, "every": keys.every or None},
        "types": {
            name: {"keys": each.keys, "elements": each.elements, "bytes_estimate": round(each.bytes)}
            for name, each in sorted(keys.types.items())
        },
        "prefixes": [_prefix_facts(prefix, share) for prefix, share in keys.prefixes_by_bytes()[:top]],
        "largest": [_key_facts(each) for each in keys.largest],
    }


def _prefix_facts(prefix: bytes | None, share: Share) -> dict[str, Any]:
    from ops.reply_json import bytes_as_json

    shown = None if prefix is None else bytes_as_json(prefix)
    return {"prefix": shown, "keys_estimate": round(share.keys), "bytes_estimate": round(share.bytes)}


def _key_facts(key: LargeKey) -> dict[str, Any]:
    from ops.reply_json import bytes_as_json

    return {**key._asdict(), "name": bytes_as_json(key.name)}
