"""The checker itself: it accepts what one Redis could have done, and finds each kind of wrong history."""

from __future__ import annotations

import pytest

from tests.linearizability.history import Operation, Verdict, narrowed, verdict
from tests.real.process import ServerError

LEGAL = Verdict(1, (), ())
ILLEGAL = Verdict(1, ("k",), ())


def done(command: str, *args: str, at: tuple[int, int | None], reply: str | None = None) -> Operation:
    """An operation on the key `k` that was called and returned at these times."""
    return Operation("k", command, args, reply, *at)


SET_5 = done("SET", "5", at=(1, 2), reply="OK")
SET_6 = done("SET", "6", at=(3, 4), reply="OK")
LOST_SET_6 = done("SET", "6", at=(3, None))


@pytest.mark.parametrize(
    "history",
    [
        pytest.param([SET_5, SET_6, done("GET", at=(5, 6), reply="5")], id="stale read"),
        pytest.param([SET_5, SET_6, done("GET", at=(5, 6))], id="lost write"),
        pytest.param([SET_5, done("GET", at=(3, 4), reply="7")], id="a value that nobody wrote"),
        pytest.param(
            [SET_5, LOST_SET_6, done("GET", at=(5, 6), reply="6"), done("GET", at=(7, 8), reply="5")],
            id="a write in doubt that was seen and is gone",
        ),
        pytest.param([done("INCR", at=(1, 5), reply="1"), done("INCR", at=(2, 6), reply="1")], id="one count twice"),
        pytest.param(
            [done("INCR", at=(1, None)), done("GET", at=(5, 6), reply="2")], id="a write in doubt, applied twice"
        ),
        pytest.param(
            [
                done("RPUSH", "1", at=(1, 2), reply="1"),
                done("LPOP", at=(3, 6), reply="1"),
                done("LPOP", at=(4, 7), reply="1"),
            ],
            id="one element popped twice",
        ),
        pytest.param(
            [
                done("RPUSH", "1", at=(1, 2), reply="1"),
                done("RPUSH", "2", at=(3, 4), reply="2"),
                done("LRANGE", at=(5, 6), reply="2,1"),
            ],
            id="elements exchanged",
        ),
        pytest.param(
            [done("SADD", "1", at=(1, 2), reply="1"), done("SISMEMBER", "1", at=(3, 4), reply="0")],
            id="a member that is not there",
        ),
        pytest.param(
            [SET_5, done("CAS", "5", "6", at=(3, 8), reply="OK"), done("CAS", "5", "7", at=(4, 9), reply="OK")],
            id="two clients won one WATCH",
        ),
        pytest.param([SET_5, done("GET", at=(3, 4), reply="ERR no")], id="an error that no model gives"),
        pytest.param(
            [
                done("XADD", "7", at=(1, 2), reply="OK"),
                done("XREADGROUP", at=(3, 6), reply="7"),
                done("XREADGROUP", at=(4, 7), reply="7"),
            ],
            id="one entry given twice",
        ),
        pytest.param(
            [
                done("XADD", "7", at=(1, 2), reply="OK"),
                done("XREADGROUP", at=(3, 4), reply="7"),
                done("XACK", "7", at=(5, 8), reply="1"),
                done("XACK", "7", at=(6, 9), reply="1"),
            ],
            id="one entry acknowledged twice",
        ),
        pytest.param(
            [
                done("XADD", "7", at=(1, 2), reply="OK"),
                done("XADD", "8", at=(3, 4), reply="OK"),
                done("XREADGROUP", at=(5, 6), reply="8"),
            ],
            id="an entry passed by",
        ),
        pytest.param(
            [
                done("XADD", "7", at=(1, None)),
                done("XRANGE", at=(3, 4), reply="7"),
                done("XRANGE", at=(5, 6), reply=""),
            ],
            id="an entry in doubt that was seen and is gone",
        ),
    ],
)
def test_wrong_histories_are_found(history: list[Operation]) -> None:
    """No order of the operations explains this."""
    assert ILLEGAL == verdict(history)


@pytest.mark.parametrize(
    "history",
    [
        pytest.param([SET_5, SET_6, done("GET", at=(5, 6), reply="6")], id="one after the other"),
        pytest.param([SET_5, done("SET", "6", at=(3, 9), reply="OK"), done("GET", at=(4, 5), reply="5")], id="at once"),
        pytest.param([SET_5, LOST_SET_6, done("GET", at=(5, 6), reply="5")], id="a write in doubt, never"),
        pytest.param(
            [SET_5, LOST_SET_6, done("GET", at=(5, 6), reply="5"), done("GET", at=(7, 8), reply="6")],
            id="a write in doubt, later",
        ),
        pytest.param(
            [
                done("RPUSH", "1", at=(1, 2), reply="1"),
                done("LPUSH", "2", at=(3, 4), reply="2"),
                done("LLEN", at=(5, 6), reply="2"),
                done("LRANGE", at=(5, 6), reply="2,1"),
                done("RPOP", at=(7, 8), reply="1"),
                done("LPOP", at=(9, 10), reply="2"),
                done("LPOP", at=(11, 12)),
            ],
            id="a list",
        ),
        pytest.param(
            [
                done("SADD", "2", at=(1, 2), reply="1"),
                done("SADD", "1", at=(1, 2), reply="1"),
                done("SADD", "1", at=(3, 4), reply="0"),
                done("SCARD", at=(5, 6), reply="2"),
                done("SREM", "1", at=(7, 8), reply="1"),
                done("SREM", "1", at=(9, 10), reply="0"),
                done("SISMEMBER", "2", at=(11, 12), reply="1"),
            ],
            id="a set",
        ),
        pytest.param(
            [
                done("INCR", at=(1, 2), reply="1"),
                done("APPEND", "7", at=(3, 4), reply="2"),
                done("GETSET", "5", at=(5, 6), reply="17"),
                done("CAS", "5", "6", at=(7, 8), reply="OK"),
                done("DEL", at=(9, 10), reply="1"),
                done("DEL", at=(11, 12), reply="0"),
                done("CAS", "", "8", at=(13, 14), reply="OK"),
            ],
            id="a register",
        ),
        pytest.param(
            [
                done("XREADGROUP", at=(1, 2)),
                done("XADD", "8", at=(3, 4), reply="OK"),
                done("XADD", "7", at=(5, 6), reply="OK"),
                done("XRANGE", at=(7, 8), reply="8,7"),
                done("XREADGROUP", at=(9, 10), reply="8"),
                done("XREADGROUP", at=(11, None)),
                done("XPENDING", at=(12, 13), reply="2"),
                done("XACK", "7", at=(14, 15), reply="1"),
                done("XACK", "8", at=(15, 16), reply="1"),
                done("XACK", "8", at=(17, 18), reply="0"),
                done("XLEN", at=(19, 20), reply="2"),
            ],
            id="a stream",
        ),
    ],
)
def test_right_histories_are_accepted(history: list[Operation]) -> None:
    """One order explains all, whichever way the lines are sorted."""
    assert LEGAL == verdict(history)
    assert LEGAL == verdict(history[::-1])


def test_keys_are_judged_apart() -> None:
    """Two keys whose orders cannot be joined into one are each linearizable; a wrong one does not hide behind them."""
    wrong = [SET_5, done("GET", at=(3, 4))]
    right = [operation._replace(key="other") for operation in (SET_5, SET_6)]

    assert Verdict(2, ("k",), ()) == verdict([*right, *wrong])


@pytest.mark.parametrize(
    "operation",
    [
        done("NOSUCH", at=(1, 2)),
        done("SET", at=(1, 2), reply="OK"),
        done("SET", "5", at=(2, 1), reply="OK"),
    ],
    ids=["unknown command", "wrong arity", "time runs backwards"],
)
def test_what_is_not_understood_is_refused(operation: Operation) -> None:
    """A line that the checker cannot judge is an error, not an operation left out."""
    with pytest.raises(ServerError, match="checker: line 2: "):
        verdict([SET_5, operation])


def test_an_entry_in_doubt_has_the_room_that_replies_leave() -> None:
    """It was added before a reply shows it, and not before an XRANGE that lacks it; else it stays in doubt."""
    lacks, shows = done("XRANGE", at=(5, 6), reply="3"), done("XREADGROUP", at=(8, 9), reply="7")
    later = done("XRANGE", at=(12, 13), reply="3,7")
    known = done("XADD", "3", at=(1, 2), reply="OK")

    assert [known, lacks, done("XADD", "7", at=(5, 9), reply="OK"), shows, later] == narrowed(
        [known, lacks, done("XADD", "7", at=(1, None)), shows, later]
    )
    assert [known, lacks, done("XADD", "8", at=(5, None))] == narrowed([known, lacks, done("XADD", "8", at=(1, None))])


def test_entries_in_doubt_take_no_long_search() -> None:
    """Six of them, of which none came, beside many concurrent operations, are decided."""
    doubted = [done("XADD", str(number), at=(10 * number, None)) for number in range(1, 7)]
    turns: list[Operation] = []
    for number in range(40):
        at = 100 + 10 * number
        turns += [
            done("XADD", str(100 + number), at=(at, at + 9), reply="OK"),
            done("XLEN", at=(at + 1, at + 8), reply=str(number)),
            done("XRANGE", at=(at + 2, at + 7), reply=",".join(str(100 + each) for each in range(number))),
        ]
    assert LEGAL == verdict([*doubted, *turns])
