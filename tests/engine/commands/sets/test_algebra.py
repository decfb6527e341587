"""Combinations of sets and sorted sets where random sequences seldom go: sources that are destinations, sums, sizes."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from engine.apply.machine import Machine
from engine.layouts.layout import Form
from tests.consistency import problems
from tests.engine.harness import new_store, open_machine, send
from tests.real.oracle import Connection


@pytest.mark.parametrize(
    ("command", "members"),
    [
        ("SUNIONSTORE a a b", [b"1", b"2", b"3"]),
        ("SINTERSTORE a a b", [b"2"]),
        ("SDIFFSTORE a a b", [b"1"]),
        ("SDIFFSTORE b a b", [b"1"]),
    ],
)
def test_a_source_may_be_the_destination_of_sets(command: str, members: list[bytes]) -> None:
    """The result is complete before it takes a source's place."""
    store = new_store()
    machine = open_machine(store)
    send(machine, "SADD a 1 2", "SADD b 2 3")

    assert [len(members)] == send(machine, command)
    assert members == machine.read(b"SMEMBERS", [command.split()[1].encode()])
    assert [] == problems(store)


@pytest.mark.parametrize(
    ("command", "members"),
    [
        ("ZUNIONSTORE a 2 a b", [(b"1", 1.0), (b"3", 3.0), (b"2", 4.0)]),
        ("ZINTERSTORE b 2 a b AGGREGATE MIN", [(b"2", 2.0)]),
        ("ZDIFFSTORE a 2 a b", [(b"1", 1.0)]),
    ],
)
def test_a_source_may_be_the_destination_of_sorted_sets(command: str, members: list[Any]) -> None:
    """Likewise, with the scores of before."""
    store = new_store()
    machine = open_machine(store)
    send(machine, "ZADD a 1 1 2 2", "ZADD b 2 2 3 3")

    assert [len(members)] == send(machine, command)
    assert members == machine.read(b"ZRANGE", [command.split()[1].encode(), b"0", b"-1", b"WITHSCORES"])
    assert [] == problems(store)


def test_sums_of_fractions_are_the_oracles(oracle: Connection) -> None:
    """The order in which scores are added changes the last digits: it is the oracle's, by size of the source."""
    lines = [
        "ZADD a 0.1 m 1 x 1 y 1 z",
        "ZADD b 0.7 m 1 x 1 y",
        "ZADD c 1e16 m",
        "ZADD d -1e16 m 1 x",
        "ZADD e 0.3 m 5 w",
    ]
    questions = [f"{name} 5 {keys} WITHSCORES" for name in ("ZUNION", "ZINTER") for keys in ("a b c d e", "e d c b a")]
    machine = open_machine(new_store())
    send(machine, *lines)
    oracle.pipeline([line.split() for line in lines])
    oracle.call("HELLO", 3)

    for question in questions:
        name, *args = question.encode().split()
        assert oracle.call(*question.split()) == [list(pair) for pair in machine.read(name, args)]


@pytest.mark.form(Form.FRAGMENTS)
def test_a_bit_is_set_in_place() -> None:
    """SETBIT keeps the time to live, and a far bit costs one fragment: a transaction may set many."""
    machine = open_machine(new_store())
    send(machine, "SET k \x00 PXAT 4102444800000")
    assert [0, 0, b"\x80\x00\x01", 4102444800000] == send(
        machine, "SETBIT k 0 1", "SETBIT k 23 1", "GET k", "PEXPIRETIME k"
    )

    first_bit = 8 * 40 * 1024 * 1024
    far = [[b"SETBIT", b"big", b"%d" % (first_bit + number), b"1"] for number in range(3)]
    assert [[0, 0, 0]] == send(machine, far)


@pytest.mark.parametrize("count", [3, 40])
@pytest.mark.parametrize("committed", [True, False])
def test_large_and_many_sources_are_combined_as_small_ones(count: int, *, committed: bool) -> None:
    """Merged as streams, walked side by side, or in pages when there are many: what Python's own sets and dicts say."""
    random = Random(count)
    contents = [sorted(random.sample(range(10_000), 9000 // count * 2)) for _ in range(count)]
    contents.append(sorted({*contents[0]} | {*range(0, 10_000, 3)}))
    machine = open_machine(new_store())
    lines = [f"SADD s{n} {' '.join(map(str, members))}" for n, members in enumerate(contents)]
    lines += [f"ZADD z{n} {' '.join(f'{m % 7} {m}' for m in members)}" for n, members in enumerate(contents)]
    sets = " ".join(f"s{n}" for n in range(count + 1))
    lines += [f"SUNIONSTORE su {sets}", f"SINTERSTORE si s0 s{count}", f"SDIFFSTORE sd s{count} s0 s1 {sets[:2]}"]
    lines += [f"ZUNIONSTORE zu {count + 1} {sets.replace('s', 'z')}", f"ZINTERSTORE zi 3 z0 s{count} z{count}"]
    lines += [f"ZDIFFSTORE zd {count} z{count} {' '.join(f'z{n}' for n in range(1, count))}"]
    for step in [lines[: 2 * count + 2], lines[2 * count + 2 :]] if committed else [lines]:
        send(machine, *step)

    all_of, first, last = [{*members} for members in contents], {*contents[0]}, {*contents[-1]}
    assert sorted(map(str, set().union(*all_of))) == texts(machine.read(b"SMEMBERS", [b"su"]))
    assert sorted(map(str, first & last)) == texts(machine.read(b"SMEMBERS", [b"si"]))
    assert sorted(map(str, last - first - all_of[1])) == texts(machine.read(b"SMEMBERS", [b"sd"]))
    sums = Counter[int]()
    for members in contents:
        sums.update({member: member % 7 for member in members})
    assert {str(m): float(sums[m]) for m in set().union(*all_of)} == scores(machine, b"zu")
    assert {str(m): 2.0 * (m % 7) + 1 for m in first & last} == scores(machine, b"zi")
    assert {str(m): float(m % 7) for m in last.difference(*all_of[1:count])} == scores(machine, b"zd")


def texts(members: list[bytes]) -> list[str]:
    """Members as text."""
    return [member.decode() for member in members]


def scores(machine: Machine, name: bytes) -> dict[str, float]:
    """The members of a sorted set with their scores."""
    return {member.decode(): score for member, score in machine.read(b"ZRANGE", [name, b"0", b"-1", b"WITHSCORES"])}
