"""SORT where random sequences seldom go: patterns, odd numbers, elements that compare as equal, keys of other slots."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from engine.apply.machine import Machine
from engine.commands.registry import SPECS
from engine.errors import foreign_pattern
from engine.layouts.layout import Form
from slotlog.shared.slots import pattern_slot, slot
from tests.differential.wire import RESP2, wire
from tests.engine.commands.watched import WatchedStore
from tests.engine.harness import FINGERPRINT, NOW_MS, apply, new_store, open_machine, send
from tests.layouts import home_of
from tests.real.oracle import Connection, Oracle

FILL = (
    ("RPUSH", "l", "3", "1", "2", "10", "2"),
    ("SADD", "e", "c", "a", "b", "a\x00x", ""),
    ("SADD", "numbers", "30", "4", "-1"),
    ("ZADD", "z", "3", "1", "1", "30", "2", "2", "2", "11"),
    ("RPUSH", "text", "b", "a\x00b", "a\x00a", "a", "B", "A"),
    ("RPUSH", "zeros", "1", "1.0", "01", "0", "-0", "0.0"),
    *(("MSET", f"w_{number}", weight) for number, weight in (("1", "b"), ("3", "a"), ("2\x00", "n"))),
    ("HSET", "w_2", "f", "0", "f->g", "deep", "f\x00", "nul"),
    ("MSET", "n_1", "5", "n_2", "-3", "n_3", "5", "n_10", "1e2"),
    ("SET", "w_2->", "arrow"),
    ("SET", "string", "x"),
)

SORTS = (
    *("l", "l DESC", "l DESC ASC", "l ALPHA", "l alpha desc", "numbers", "zeros", "zeros DESC", "none", "string"),
    *("text ALPHA", "text ALPHA DESC", "e", "numbers ALPHA", "z", "z DESC", "z ALPHA"),
    # LIMIT
    *(f"l LIMIT {limit}" for limit in ("1 2", "0 0", "-5 2", "1 -2", "1 -1", "5 1", "9 9", "0", "x 1", "1 x", "0 99")),
    f"l LIMIT {2**63 - 1} {2**63 - 1}",
    f"l LIMIT {-(2**63)} {-(2**63)}",
    # BY
    *(
        "l BY nosort",
        "l BY nosort DESC",
        "l BY nosort DESC LIMIT 1 2",
        "l BY nosort LIMIT 4 9",
        "l BY nosort LIMIT 9 9",
    ),
    *(
        "z BY nosort",
        "z BY nosort DESC",
        "z BY nosort LIMIT 1 2",
        "z BY nosort DESC LIMIT 1 2",
        "z BY nosort LIMIT 9 1",
    ),
    *("l BY w_*", "l BY w_* ALPHA", "l BY w_* ALPHA DESC", "l BY n_*", "l BY n_* DESC", "l BY w_*->f", "l BY none_*"),
    *("l BY # DESC", "l BY", "l BY nosort BY n_*", "l BY n_* BY nosort", "l BY w_0 LIMIT 0 2", "l BY w_\x00* DESC"),
    # GET
    *(f"l GET {pattern}" for pattern in ("w_*", "#", "w_*->f", "w_*->", "w_*->f->g", "w_*->f\x00", "w_*\x00->f", "*")),
    *(f"l GET {pattern}" for pattern in ("w_2", "#x", "#\x00x", "\x00w_*", "w_*\x00", "w_*->\x00f", "string*", "")),
    *("l GET # GET w_* GET n_*", "l BY n_* GET #", "l BY nosort GET w_* LIMIT 1 2", "l GET", "none GET w_*"),
    # STORE
    *("l STORE d", "l STORE l", "text ALPHA STORE d", "text ALPHA DESC STORE d", "none STORE l", "l GET w_* STORE d"),
    *("e BY nosort STORE d", "e BY nosort DESC LIMIT 0 2 STORE d", "e BY nosort ALPHA STORE d", "z BY nosort STORE d"),
    *("l STORE string", "l LIMIT 9 9 STORE string", "l STORE d STORE string", "l STORE", "string STORE d"),
    *("e BY w_* STORE d", "numbers GET none STORE d"),
    # what is refused, and in which order
    *(
        "string foo",
        "string LIMIT x y",
        "l foo BY",
        "l asc\x00x",
        "l by\x00 nosort",
        "l BY nosort GET",
        "text BY nosort",
    ),
    *("none foo", "l LIMIT 0 0 foo", "text LIMIT 0 0", "text LIMIT 0 0 STORE l"),
)


@pytest.fixture
def oracle(oracle_server: Oracle) -> Iterator[Connection]:
    """A connection to the oracle."""
    with closing(oracle_server.connect()) as connection:
        yield connection


def filled(machine: Machine) -> Machine:
    """The machine, with `FILL` applied."""
    run(machine, *([word.encode() for word in words] for words in FILL))
    return machine


def run(machine: Machine, *commands: list[bytes]) -> list[object]:
    """The outcomes of commands."""
    start = machine.next_offset
    records = [(start + n, NOW_MS, name, args, 0, None, None) for n, (name, *args) in enumerate(commands)]
    applied = apply(machine, *records)
    machine.commit(FINGERPRINT)
    return [applied.outcomes[start + n] for n in range(len(commands))]


@pytest.mark.parametrize("line", SORTS, ids=repr)
@pytest.mark.parametrize("name", ["SORT", "SORT_RO"])
def test_replies_and_what_is_stored_are_the_oracles(name: str, line: str, oracle: Connection) -> None:
    """SORT and SORT_RO of lists, sets and sorted sets answer and store what the oracle does."""
    machine = filled(open_machine(new_store()))
    oracle.pipeline([["FLUSHALL"], *FILL])
    command = [word.encode() for word in (name, *line.split(" "))]
    looks = [[b"LRANGE", key, b"0", b"-1"] for key in (b"d", b"l", b"string")]

    expected = oracle.pipeline([command, *looks])
    outcomes = run(machine, command, *looks)

    assert expected == [wire(outcome, RESP2) for outcome in outcomes]


@pytest.mark.parametrize(
    "text",
    [
        *("1 ", "1e400", "1e-400", "nan", "inf", "-inf", "+5", ".5", "5.", "1e5", "infinity", "1_0"),
        *("-", "1e", "1\x00x", "INF", "-nan", "9007199254740993", "0.1", "1" * 400, "1e-310"),
    ],
    ids=repr,
)
def test_numbers_are_read_as_the_oracle_does(text: str, oracle: Connection) -> None:
    """What an element must spell to be sorted as a number, and where it then stands."""
    push = ["RPUSH", "n", text, "5", "-5", "9007199254740992", "0"]
    machine = open_machine(new_store())
    oracle.pipeline([["FLUSHALL"], push])
    run(machine, [word.encode() for word in push])

    assert oracle.call("SORT", "n") == wire(run(machine, [b"SORT", b"n"])[0], RESP2)


def test_what_strtod_takes_is_a_number() -> None:
    """An empty element or weight is 0; blanks in front, and hexadecimal digits, are no harm: as in Redis."""
    machine = open_machine(new_store())
    for element in (b"5", b"", b" 1", b"0x10", b"-0x1.8P1", b"\x00x"):
        run(machine, [b"RPUSH", b"n", element])
    send(machine, "RPUSH l a b c", "MSET w_a 1 w_c -1")
    run(machine, [b"SET", b"w_b", b""])

    assert [[b"-0x1.8P1", b"", b"\x00x", b" 1", b"5", b"0x10"], [b"c", b"b", b"a"]] == send(
        machine, "SORT n", "SORT l BY w_*"
    )


@pytest.mark.parametrize("text", [" ", "0x", "0xg", "0x1p", "1x", "0x1p9999", "nan(1)"])
def test_what_strtod_refuses_is_no_number(text: str) -> None:
    """Blanks alone, what is unfinished, and what is too large for a double, cannot be sorted as numbers."""
    machine = open_machine(new_store())
    run(machine, [b"RPUSH", b"n", text.encode()])
    run(machine, [b"RPUSH", b"n", b"1"])

    assert ["ERR One or more scores can't be converted into double"] == list(map(str, run(machine, [b"SORT", b"n"])))


def test_equal_weights_keep_their_order() -> None:
    """Elements whose weights compare as equal stay as they were, ascending or not, with a LIMIT as well."""
    machine = open_machine(new_store())
    names = [f"k{number}" for number in range(40)]
    send(machine, "RPUSH l " + " ".join(names))
    expected = [name.encode() for name in names]

    assert [expected, expected, expected[5:8]] == send(
        machine, "SORT l ALPHA BY none_*", "SORT l ALPHA DESC BY none_*", "SORT l ALPHA BY none_* LIMIT 5 3"
    )


def test_a_stored_result_never_expires() -> None:
    """STORE replaces a key together with its time to live, and an empty result deletes it."""
    machine = open_machine(new_store())

    assert [b"OK", 2, 2, -1, 0, -2] == send(
        machine, "SETEX d 60 x", "RPUSH l 2 1", "SORT l STORE d", "TTL d", "SORT none STORE d", "TTL d"
    )


def test_a_part_of_a_list_in_its_own_order_reads_no_more() -> None:
    """`BY nosort LIMIT` reads the elements that it returns."""
    store = WatchedStore()
    machine = open_machine(store)
    send(machine, "RPUSH l " + " ".join(map(str, range(1000))))
    machine = open_machine(store)

    assert [[b"500", b"501"]] == send(machine, "SORT l BY nosort LIMIT 500 2")
    assert 2 == store.scanned


# ---------------------------------------------------------------------- other slots


BAR = slot(b"bar")  # in partition 1 of 4


@pytest.fixture
def clustered() -> Machine:
    """Partition 1 of four, with a list."""
    machine = open_machine(new_store(), home_of("topic", 1, 4))
    send(machine, "RPUSH bar 3 1")
    return machine


@pytest.mark.parametrize(
    ("words", "option"),
    [
        *(("BY w_*", "BY"), ("GET w_*", "GET"), ("GET w", "GET"), ("BY w_*{bar}", "BY"), ("GET #x", "GET")),
        *(
            ("BY {}{bar}*", "BY"),
            ("BY ?{bar}*", "BY"),
            ("BY {?bar}*", "BY"),
            ("BY [{bar}*", "BY"),
            ("BY \\{bar}*", "BY"),
        ),
        *(("BY {bar*", "BY"), ("GET bar\x00*", "GET"), ("GET # GET w_*", "GET"), ("LIMIT 0 1 BY w_* foo", "BY")),
    ],
)
def test_keys_of_other_slots_are_refused(words: str, option: str, clustered: Machine) -> None:
    """In a topic of several partitions a pattern whose keys may lie elsewhere makes a dead letter, in an EXEC too."""
    line = f"SORT bar {words}"

    assert [foreign_pattern(option)] == send(clustered, line)
    assert [foreign_pattern(option)] == send(clustered, [line.encode().split(b" ")])


@pytest.mark.parametrize(
    "words",
    ["", "BY nosort", "GET #", "GET #\x00", "BY {bar}w_*", "GET {bar}w_*->f", "BY ]{bar}*", "GET bar", "BY {bar}*"],
)
def test_keys_of_the_same_slot_are_read(words: str, clustered: Machine) -> None:
    """A pattern whose hash tag is that of the sorted key is taken, and so is one that is no pattern."""
    assert isinstance(send(clustered, f"SORT bar {words}".rstrip())[0], list)


def test_a_syntax_error_in_front_comes_first(clustered: Machine) -> None:
    """The first thing that is wrong is what the reply says."""
    assert ["ERR syntax error"] == [str(each) for each in send(clustered, "SORT bar foo BY w_*")]


def test_patterns_have_the_slot_of_their_tag() -> None:
    """A pattern has a slot when its tag stands in front of the first wildcard, or when it has none."""
    assert [BAR] * 4 == [pattern_slot(pattern) for pattern in (b"bar", b"{bar}*", b"x{bar}?", b"{bar}*{foo}")]
    assert [None] * 4 == [pattern_slot(pattern) for pattern in (b"*{bar}", b"{ba*r}", b"{}{bar}*", b"{bar*")]


def test_the_key_behind_the_last_store_is_a_key() -> None:
    """Routing sees the destination, and no word that only looks like the option."""
    words = b"l BY store GET store STORE d LIMIT 0 store STORE e".split()

    assert [b"l", b"e"] == SPECS[b"SORT"].keys(words)
    assert [b"l"] == SPECS[b"SORT_RO"].keys(words)


@pytest.mark.parametrize("how", ["GET w_*", "GET w_* STORE to", "BY w_* ALPHA"])
@pytest.mark.form(Form.FRAGMENTS)
def test_elements_that_name_one_huge_value_do_not_multiply_it(how: str) -> None:
    """What SORT looks up ends at 256 MiB, whether it is shown, stored or sorted by: few bytes name any amount."""
    machine = open_machine(new_store())
    send(machine, "SETRANGE w_1 67108863 x", "RPUSH l 1 1 1 1 1", "SET to old")
    outcomes = send(machine, f"SORT l {how}")

    assert "the reply would be larger than 256 MiB" in str(outcomes[0])
    assert b"old" == machine.read(b"GET", [b"to"])
