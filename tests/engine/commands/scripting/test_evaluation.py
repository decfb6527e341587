"""EVAL, EVALSHA and their forms that only read, as events and as reads."""

from __future__ import annotations

import pytest

from engine.apply.machine import Machine, Record
from engine.errors import CommandError
from engine.limits import EXEC_VALUE_BYTES_MAX
from engine.tables.scripts import digest_of
from engine.values.replies import NIL_ARRAY, OK, Reply
from tests.engine.commands.scripting.harness import applied, outcome
from tests.engine.harness import new_store, open_machine, send, shape
from tests.layouts import home_of

SET = "return redis.call('SET', KEYS[1], ARGV[1])"
GET = "return redis.call('GET', KEYS[1])"
HALF = "redis.call('SET', KEYS[1], 'x') return redis.call('INCR', KEYS[1])"
NO_SCRIPT = ("CommandError", "NOSCRIPT No matching script.")


def reading(size: int) -> bytes:
    """A script of so many bytes, each size another one."""
    return b"return %d --" % size + bytes(size - len(b"return %d --" % size))


def is_known(machine: Machine, source: bytes) -> bool:
    """Whether a read finds the script by its SHA-1."""
    try:
        machine.read(b"EVALSHA_RO", [digest_of(source), b"0"])
    except CommandError:
        return False
    return True


def test_the_sources_of_reads_have_a_bound() -> None:
    """Beyond 4 MiB the first ones go; one that is larger by itself is not kept; a run again takes no more room."""
    machine = open_machine(new_store())
    sources = [reading(size) for size in (1_500_000, 1_500_001, 1_000_000, 1_000_001)]
    for source in (sources[0], *sources):
        machine.read(b"EVAL_RO", [source, b"0"])
    assert [False, True, True, True] == [is_known(machine, source) for source in sources]
    machine.read(b"EVAL_RO", [reading(5_000_000), b"0"])
    assert [False] * 3 == [is_known(machine, source) for source in (*sources[2:], reading(5_000_000))]


def test_a_flush_forgets_the_sources_of_reads() -> None:
    """SCRIPT FLUSH leaves no script, whoever has brought it."""
    machine = open_machine(new_store())
    machine.read(b"EVAL_RO", [reading(100), b"0"])
    assert is_known(machine, reading(100))
    outcome(machine, "SCRIPT|FLUSH")
    assert not is_known(machine, reading(100))


def test_a_script_writes_and_replies() -> None:
    """EVAL is one event: it changes the state and gives what the script returns."""
    machine = open_machine(new_store())
    assert shape(OK) == shape(outcome(machine, "EVAL", SET, "1", "k", "v"))
    assert b"v" == machine.read(b"GET", [b"k"])


def test_eval_makes_a_script_known_to_evalsha() -> None:
    """EVALSHA of an unknown SHA-1 changes nothing, and runs the script once EVAL has brought it."""
    machine = open_machine(new_store())
    sha = digest_of(SET.encode())
    assert NO_SCRIPT == shape(outcome(machine, "EVALSHA", sha, "1", "k", "v"))
    assert [] == machine.read(b"KEYS", [b"*"])
    outcome(machine, "EVAL", SET, "1", "k", "v")
    outcome(machine, "EVALSHA", sha.upper(), "1", "other", "w")
    assert b"w" == machine.read(b"GET", [b"other"])


def test_scripts_are_there_when_the_state_is_opened_again() -> None:
    """A machine over the same store knows the scripts of the one before."""
    store = new_store()
    outcome(open_machine(store), "EVAL", SET, "1", "k", "v")
    assert shape(OK) == shape(outcome(open_machine(store), "EVALSHA", digest_of(SET.encode()), "1", "k", "w"))


def test_a_rollback_forgets_the_scripts_of_its_batch() -> None:
    """What was not committed is no script."""
    machine = open_machine(new_store())
    machine.apply([(0, 1, b"SCRIPT|LOAD", [SET.encode()], 0, None, None)], 0)
    machine.rollback()
    assert [0] == machine.read(b"SCRIPT|EXISTS", [digest_of(SET.encode())])


def test_what_a_script_wrote_before_it_failed_stays() -> None:
    """As in Redis a failing script keeps its earlier writes; its error is the reply."""
    machine = open_machine(new_store())
    reply = outcome(machine, "EVAL", HALF, "1", "k")
    assert isinstance(reply, CommandError)
    assert reply.message.startswith("ERR value is not an integer or out of range script: ")
    assert b"x" == machine.read(b"GET", [b"k"])


def test_a_script_that_does_not_compile_is_not_kept() -> None:
    """The error names the place, and EVALSHA does not know the script."""
    machine = open_machine(new_store())
    text = "ERR Error compiling script (new function): user_script:1: unexpected symbol near '<eof>'"
    assert ("CommandError", text) == shape(outcome(machine, "EVAL", "return (", "0"))
    assert NO_SCRIPT == shape(outcome(machine, "EVALSHA", digest_of(b"return ("), "0"))


def test_a_reading_script_that_does_not_compile_is_not_kept() -> None:
    """EVAL_RO replies with the error of EVAL, and EVALSHA_RO does not know the script."""
    machine = open_machine(new_store())
    with pytest.raises(CommandError, match="ERR Error compiling script"):
        machine.read(b"EVAL_RO", [b"return (", b"0"])
    with pytest.raises(CommandError, match="NOSCRIPT"):
        machine.read(b"EVALSHA_RO", [digest_of(b"return ("), b"0"])


@pytest.mark.parametrize(
    ("count", "text"),
    [
        ("x", "ERR value is not an integer or out of range"),
        ("-1", "ERR Number of keys can't be negative"),
        ("2", "ERR Number of keys can't be greater than number of args"),
    ],
)
def test_a_number_of_keys_that_cannot_be_is_refused(count: str, text: str) -> None:
    """The texts are Redis', and the script is not kept."""
    machine = open_machine(new_store())
    assert ("CommandError", text) == shape(outcome(machine, "EVAL", GET, count, "k"))
    assert [0] == machine.read(b"SCRIPT|EXISTS", [digest_of(GET.encode())])


def test_each_command_of_a_script_is_counted() -> None:
    """Counts, as those of an EXEC, hold the script and its commands."""
    result = applied(open_machine(new_store()), "EVAL", HALF, "1", "k")
    assert {b"EVAL": 1, b"SET": 1, b"INCR": 1} == dict(result.commands)
    assert {b"INCR": 1, b"EVAL": 1} == result.rejected_commands


@pytest.mark.parametrize(("script", "reply"), [(GET, [b"0"]), (SET, NIL_ARRAY)])
def test_a_script_breaks_the_watches_of_what_it_changes(script: str, reply: Reply) -> None:
    """A session that watches a key loses by a script that writes it, and by no script that reads it."""
    machine = open_machine(new_store())
    session = b"s" * 16
    records: list[Record] = [
        (0, 1, b"SET", [b"k", b"0"], 0, None, None),
        (1, 1, b"WATCH", [b"k"], 0, None, session),
        (2, 1, b"EVAL", [script.encode(), b"1", b"k", b"v"], 0, None, None),
        (3, 1, b"EXEC", [[b"GET", b"k"]], 0, None, session),
    ]
    assert reply == machine.apply(records, 0, waiting={3}).outcomes[3]


def test_a_witness_is_told_of_each_key_that_a_script_changes() -> None:
    """Who listens for keyspace events hears the commands of the script, not the script."""
    machine = open_machine(new_store())
    machine.witnessing = True
    result = applied(machine, "EVAL", "redis.call('SET', 'a', '1') return redis.call('RPUSH', 'l', 'x')", "0")
    assert [(b"SET", b"a"), (b"RPUSH", b"l")] == [(each[2], each[5]) for each in result.modified]


def test_select_holds_for_the_script() -> None:
    """The next event runs in its own database."""
    machine = open_machine(new_store())
    outcome(machine, "EVAL", "redis.call('SELECT', '3') return redis.call('SET', 'k', 'v')", "0")
    outcome(machine, "SET", "here", "1")
    assert [[b"here"], [b"k"]] == [machine.read(b"KEYS", [b"*"], db) for db in (0, 3)]


def test_select_in_a_script_does_not_hold_for_its_transaction() -> None:
    """The steps behind a script run in the database of the transaction."""
    machine = open_machine(new_store())
    send(machine, [[b"EVAL", b"return redis.call('SELECT', '3')", b"0"], [b"SET", b"here", b"1"]])
    assert [[b"here"], []] == [machine.read(b"KEYS", [b"*"], db) for db in (0, 3)]


def test_draws_go_on_through_a_script() -> None:
    """Two draws of one script differ from each other as those of two records would."""
    machine = open_machine(new_store())
    send(machine, "SADD s " + " ".join(map(str, range(200))))
    script = "return redis.call('SPOP', 's') .. ' ' .. redis.call('SPOP', 's') .. ' ' .. redis.call('SPOP', 's')"
    drawn = outcome(machine, "EVAL", script, "1", "s").split()
    assert 3 == len({int(member) - at for at, member in enumerate(drawn)})


def test_a_reading_script_is_no_event_and_may_not_write() -> None:
    """EVAL_RO reads the state, and its writes are refused."""
    machine = open_machine(new_store())
    outcome(machine, "SET", "k", "v")
    assert b"v" == machine.read(b"EVAL_RO", [GET.encode(), b"1", b"k"])
    with pytest.raises(CommandError, match="Write commands are not allowed from read-only scripts"):
        machine.read(b"EVAL_RO", [SET.encode(), b"1", b"k", b"w"])
    assert b"v" == machine.read(b"GET", [b"k"])


def test_a_reading_script_is_known_to_reads_alone() -> None:
    """EVALSHA_RO finds what EVAL_RO has brought; an event does not, as no log says that it was there."""
    machine = open_machine(new_store())
    sha = digest_of(GET.encode())
    machine.read(b"EVAL_RO", [GET.encode(), b"1", b"k"])
    assert machine.read(b"EVALSHA_RO", [sha, b"1", b"k"]) is None
    assert [NO_SCRIPT] * 2 == [shape(outcome(machine, name, sha, "1", "k")) for name in ("EVALSHA", "EVALSHA_RO")]


def test_a_script_says_that_it_writes_nothing() -> None:
    """With the flag no-writes a write is refused; a *_RO command takes no script with a line of flags without it."""
    machine = open_machine(new_store())
    reply = outcome(machine, "EVAL", "#!lua flags=no-writes\n" + SET, "1", "k", "v")
    assert isinstance(reply, CommandError)
    assert reply.message.startswith("ERR Write commands are not allowed from read-only scripts. script: ")
    with pytest.raises(CommandError, match="Can not execute a script with write flag using"):
        machine.read(b"EVAL_RO", [b"#!lua\nreturn 1", b"0"])


def test_a_script_may_stand_in_a_transaction() -> None:
    """It sees what stands before it, and what stands behind sees what it wrote."""
    machine = open_machine(new_store())
    steps = [[b"SET", b"k", b"1"], [b"EVAL", HALF.replace("'x'", "'7'").encode(), b"1", b"k"], [b"GET", b"k"]]
    assert [[OK, 8, b"8"]] == send(machine, steps)


def test_a_script_is_bounded_in_what_it_writes() -> None:
    """The string values of one script have the bound of those of one EXEC; what it wrote before stays."""
    machine = open_machine(new_store())
    size = EXEC_VALUE_BYTES_MAX // 2
    send(machine, f"SETRANGE k {size} x")
    script = "for n = 1, 4 do redis.call('BITOP', 'NOT', 'k' .. n, 'k') end"
    reply = outcome(machine, "EVAL", script, "0")
    assert isinstance(reply, CommandError)
    assert reply.message.startswith("ERR the transaction has written too much already")


@pytest.mark.parametrize("name", ["EVAL", "WATCH", "MULTI", "SCRIPT", "BLPOP", "TICK", "SUBSCRIBE"])
def test_what_redis_refuses_to_scripts_is_refused(name: str) -> None:
    """Commands of connections and transactions, and scripts within scripts."""
    reply = outcome(open_machine(new_store()), "EVAL", f"return redis.call('{name}', 'LOAD', '0')", "0")
    assert isinstance(reply, CommandError)
    assert reply.message.startswith("ERR This Redis command is not allowed from script script: ")


def test_unknown_commands_and_numbers_of_arguments_are_refused() -> None:
    """The texts are Redis' own for scripts."""
    machine = open_machine(new_store())
    replies = [outcome(machine, "EVAL", f"return redis.call({words})", "0") for words in ("'NOSUCH'", "'GET'")]
    assert [
        "ERR Unknown Redis command called from script",
        "ERR Wrong number of args calling Redis command from script",
    ] == [reply.message.partition(" script: ")[0] for reply in replies]


def test_what_is_physically_there_is_for_reads() -> None:
    """An event that could see what is not cleaned up yet would differ at a replay."""
    machine = open_machine(new_store())
    script = "return redis.call('DBSIZE')"
    assert "DBSIZE reads what is physically there" in outcome(machine, "EVAL", script, "0").message
    assert 0 == machine.read(b"EVAL_RO", [script.encode(), b"0"])


def test_an_event_of_another_partition_is_a_dead_letter() -> None:
    """The declared keys decide where a script belongs; without keys it may be anywhere."""
    machine = open_machine(new_store(), home_of("topic", 0, 2))
    foreign = outcome(machine, "EVAL", GET, "1", "a")
    assert "slot 15495 belongs to partition 1, not 0: wrong partitioner" == foreign
    assert 1 == outcome(machine, "EVAL", "return 1", "0")


def test_keys_elsewhere_are_refused_with_the_texts_of_a_cluster() -> None:
    """Of another partition; of two slots in one command; of another slot than before, if the script has flags."""
    machine = open_machine(new_store(), home_of("topic", 0, 2))
    flags = "#!lua\n"
    scripts = {
        "return redis.call('GET', 'a')": "ERR Script attempted to access a non local key in a cluster node",
        "return redis.call('DEL', 'b', 'f')": "ERR Script attempted to access keys that do not hash to the same slot",
        flags + "redis.call('GET', 'b') return redis.call('GET', 'f')": (
            "ERR Script attempted to access keys that do not hash to the same slot"
        ),
        "return redis.call('SELECT', '0')": "ERR SELECT is not allowed in cluster mode",
        "#!lua flags=no-cluster\nreturn 1": "ERR Can not run script on cluster, 'no-cluster' flag is set.",
    }
    replies = [outcome(machine, "EVAL", script, "0") for script in scripts]
    assert list(scripts.values()) == [reply.message.partition(" script: ")[0] for reply in replies]
    assert outcome(machine, "EVAL", "redis.call('GET', 'b') return redis.call('GET', 'f')", "0") is None


def test_a_script_publishes_once_its_event_is_committed() -> None:
    """PUBLISH replies 0, the same at each replay, and the batch says what is to be told."""
    result = applied(open_machine(new_store()), "EVAL", "return redis.call('PUBLISH', 'news', 'hello')", "0")
    assert ({0: 0}, [(0, b"news", b"hello", False)]) == (result.outcomes, result.published)


def test_scripts_are_loaded_outside_of_transactions_of_several_partitions() -> None:
    """SCRIPT LOAD acts on the partition that it is in: it stands in no EXEC where there are several."""
    machine = open_machine(new_store(), home_of("topic", 0, 2))
    assert ["SCRIPT|LOAD cannot be part of a transaction"] == send(machine, [[b"SCRIPT|LOAD", b"return 1"]])
