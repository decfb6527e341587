"""A damaged MANIFEST is named, also where RocksDB takes it for ended and leaves records out in silence."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from engine.errors import CorruptionError
from engine.layouts import DEFAULT_LAYOUT, LAYOUTS
from engine.layouts.records import column_families
from engine.store.rocks import RocksStore
from engine.store.store import SYSTEM_CF, Changes
from ops.state.opening.manifest import refuse_cut_manifest
from tests.ops.verbs import run

FLUSHES = 3  # of the fourth RocksDB would compact, and change files while they are copied
BLOCK_BYTES = 32 * 1024
FAMILIES = column_families(LAYOUTS[DEFAULT_LAYOUT])
HEADER = struct.Struct("<IHB")
LONGER = (5, 0x80)  # the byte of a record's header, and the bit: it is longer than the file
UNKNOWN_TYPE = (6, 0x04)  # it is a piece of a recycled log


def flushed(path: Path, key_bytes: int = 1) -> Path:
    """A database as a kill leaves it: `FLUSHES` records with a position are in tables, one is in the log only.

    All but the last two have keys of `key_bytes`, which the MANIFEST has twice.
    """
    with closing(RocksStore(path / "open", FAMILIES)) as store:
        for number in range(FLUSHES + 1):
            changes = Changes()
            changes.of("data")[b"%d" % number * (key_bytes if number < FLUSHES - 1 else 1)] = b"value"
            changes.of(SYSTEM_CF)[b"position"] = b"%d" % number
            store.write(changes)
            if number < FLUSHES:
                store.flush_all()
        return Path(shutil.copytree(path / "open", path / "0"))


def manifest_of(path: Path) -> Path:
    """The one MANIFEST of a database."""
    (manifest,) = path.glob("MANIFEST-*")
    return manifest


def records(content: bytes) -> Iterator[tuple[int, int]]:
    """Begin and end of each record of one block."""
    at = 0
    while at < len(content):
        _, size, _ = HEADER.unpack_from(content, at)
        yield at, at + HEADER.size + size
        at += HEADER.size + size


def overwrite(path: Path, at: int, new: bytes) -> None:
    """Put other bytes into the MANIFEST at `at`."""
    content = bytearray(manifest_of(path).read_bytes())
    content[at : at + len(new)] = new
    manifest_of(path).write_bytes(content)


def flip(path: Path, at: int, mask: int) -> None:
    """Change bits of the MANIFEST's byte `at`."""
    overwrite(path, at, bytes([manifest_of(path).read_bytes()[at] ^ mask]))


@pytest.mark.damaging
@pytest.mark.parametrize(("at", "mask"), [LONGER, UNKNOWN_TYPE])
def test_one_flipped_bit_of_any_record_is_refused(at: int, mask: int, tmp_path: Path) -> None:
    """Of each record the bit that RocksDB takes for the end, or reads on at for ever; of the last one as well."""
    path = flushed(tmp_path)
    whole = manifest_of(path).read_bytes()
    found = list(records(whole))
    assert len(found) > 5 * FLUSHES
    refuse_cut_manifest(path)

    for begin, _ in found:
        manifest_of(path).write_bytes(whole)
        flip(path, begin + at, mask)
        with pytest.raises(CorruptionError, match=rf"to byte {begin} of {len(whole)}\); rebuild it with `slotlog"):
            refuse_cut_manifest(path)


@pytest.mark.damaging
def test_rocksdb_alone_leaves_tables_out_in_silence(tmp_path: Path) -> None:
    """Without the check a state has a position that is ahead of its records: once RocksDB tells, the check can go."""
    path = flushed(tmp_path)
    middle = [begin for begin, _ in records(manifest_of(path).read_bytes())][-8]
    flip(path, middle + LONGER[0], LONGER[1])

    with closing(RocksStore(path, FAMILIES)) as store:
        assert b"%d" % FLUSHES == store.getter(SYSTEM_CF)(b"position")
        assert len(list(store.scan("data", b"", None))) < FLUSHES + 1


def test_a_last_record_that_a_power_loss_tore_is_none(tmp_path: Path) -> None:
    """Cut anywhere in it, the MANIFEST is as RocksDB takes it: what it lacks is in the write-ahead log."""
    path = flushed(tmp_path)
    whole = manifest_of(path).read_bytes()
    begin, end = list(records(whole))[-1]
    assert end == len(whole)

    for cut in range(begin, end):
        manifest_of(path).write_bytes(whole[:cut])
        refuse_cut_manifest(path)


@pytest.mark.damaging
def test_zeros_in_a_manifest_are_refused(tmp_path: Path) -> None:
    """RocksDB skips the rest of a block behind zeros: of an early block, and of the last one."""
    path = flushed(tmp_path, key_bytes=10_000)
    whole = manifest_of(path).read_bytes()
    refuse_cut_manifest(path)
    assert len(whole) > BLOCK_BYTES
    last = len(whole) - len(whole) % BLOCK_BYTES

    for begin in (0, last):
        manifest_of(path).write_bytes(whole)
        overwrite(path, begin, bytes(512))
        with pytest.raises(CorruptionError, match="its list of tables"):
            refuse_cut_manifest(path)


@pytest.mark.damaging
@pytest.mark.parametrize(("at", "mask"), [LONGER, UNKNOWN_TYPE])
def test_verbs_name_the_damage(at: int, mask: int, tmp_path: Path) -> None:
    """Those that read and those that write, wherever the list of tables is cut: also before all families are named."""
    path = flushed(tmp_path / "data")
    shutil.rmtree(tmp_path / "data" / "open")
    whole = manifest_of(path).read_bytes()

    for begin, _ in list(records(whole))[6::9]:
        manifest_of(path).write_bytes(whole)
        flip(path, begin + at, mask)
        for verb in (["digest"], ["check"], ["clean", "--now"]):
            result = run(*verb, "--data", tmp_path / "data")
            assert 1 == result.exit_code
            assert "0 is damaged (its list of tables can be read to byte" in result.output
            assert "rebuild it with `slotlog replay --swap`" in result.output


@pytest.mark.damaging
def test_a_database_that_is_not_there_is_none_of_its_matters(tmp_path: Path) -> None:
    """Nor one whose CURRENT names nothing: the opening says what is wrong."""
    refuse_cut_manifest(tmp_path)
    (tmp_path / "CURRENT").write_bytes(b"\xff\n")
    refuse_cut_manifest(tmp_path)
    (tmp_path / "CURRENT").write_text("MANIFEST-000001\n")
    refuse_cut_manifest(tmp_path)
