"""Random sessions of two clients: transactions, errors, databases, protocols, inline commands and broken ones.

Two clients take turns; each turn is one write of a few requests. So all replies are decided by the order of the turns.
"""

from __future__ import annotations

from random import Random
from typing import Final, NamedTuple

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from tests.real.oracle import request as encoded

CLIENTS: Final = 2
TURNS_MAX: Final = 30
_TURN_MAX: Final = 5


class Talk(NamedTuple):
    """Bytes that have `replies` replies, no more and no fewer."""

    data: bytes
    replies: int = 1


class Turn(NamedTuple):
    """What one client sends in one write; with `ends` its last request makes the server close the connection."""

    client: int
    talks: tuple[Talk, ...]
    ends: bool = False

    @property
    def data(self) -> bytes:
        """All of it."""
        return b"".join(talk.data for talk in self.talks)

    @property
    def replies(self) -> int:
        """How many replies come."""
        return sum(talk.replies for talk in self.talks)


def _commands(text: str) -> tuple[Talk, ...]:
    """Commands between bars and at ends of lines, words between blanks; `''` is an empty one."""
    commands = [command.split() for line in text.strip().splitlines() for command in line.split(" | ")]
    return tuple(Talk(encoded(["" if word == "''" else word for word in command])) for command in commands)


DATA: Final = _commands(
    """
    SET a 1 | SET a x | SET b 2 XX | GET a | GET b | INCR a | INCR b | APPEND a 7 | MSET a 5 b 6 | DEL a b
    RPUSH l 1 2 | LPUSH l 3 | LRANGE l 0 -1 | LLEN l | LPOP l | HSET h f 1 | HGET h f | HGETALL h | DEL h l
    SADD e m | SMEMBERS e | SISMEMBER e m | ZADD z 1.5 m 2 n | ZRANGE z 0 -1 WITHSCORES | ZSCORE z m | TYPE z
    EXISTS a b l h | SETNX a 9 | GETDEL b | TTL a | STRLEN a | DBSIZE | set A 1 | gEt A | ZINCRBY z inf m
    SETBIT a 7 1 | BITCOUNT a | BITOP NOT b a | BITFIELD a INCRBY u8 0 9 | PFADD p m n | PFCOUNT p a | PFMERGE p p
    GEOADD g 13.361389 38.115556 m | GEOPOS g m nosuch | GEODIST g m n | GEOSEARCHSTORE z g FROMMEMBER m BYRADIUS 9 km
    geosearch g BYRADIUS 9 km ASC ASC ASC | GeoSearchStore z g BYRADIUS 9 km ASC ASC ASC
    RENAME a b | RENAMENX b A | COPY a A | COPY l l2 REPLACE | MOVE a 1 | MOVE A 15 | TOUCH a l | KEYS a | SORT l DESC
    LMOVE l l2 LEFT RIGHT | LINSERT l BEFORE 1 0 | SMOVE e e2 m | SINTERSTORE e e e2 | ZRANGESTORE z z 0 0
    HSETEX h FIELDS 1 f 2 | HPERSIST h FIELDS 1 f | HGETDEL h FIELDS 2 f g | HTTL h FIELDS 1 f | DUMP nosuch | LCS a b
    SUNIONSTORE e2 e e2 | ZUNIONSTORE z 2 z e | ZDIFF 2 z e WITHSCORES | SCAN 0 MATCH nosuch COUNT 99 | ZMPOP 1 z MIN
    """
)
TRANSACTIONS: Final = _commands(
    """
    MULTI | MULTI | MULTI | EXEC | EXEC | EXEC | DISCARD | WATCH a | WATCH a b l | UNWATCH | SET a 3 | INCR l
    LPUSH a 1 | GET | NOSUCH | MULTI x | EXEC x | DISCARD x | WATCH | UNWATCH x
    """
)
_ENDING_TRANSACTIONS: Final = frozenset(_commands("EXEC | DISCARD | RESET"))
CONNECTION: Final = _commands(
    """
    PING | PING hello | PING a b | ECHO hi | ECHO | ECHO a b | ping '' | RESET | RESET x | SELECT 0 | SELECT 1
    SELECT 15 | SELECT 16 | SELECT -1 | SELECT abc | SELECT '' | SELECT | SELECT 0 1 | SELECT 1e1 | SELECT 01
    SELECT 99999999999999999999 | SWAPDB 0 1 | SWAPDB 0 99 | SWAPDB a 1 | SWAPDB 0 | HELLO | HELLO 2 | HELLO 3
    HELLO 3 | HELLO 1 | HELLO 4 | HELLO abc | HELLO '' | HELLO 99999999999999 | HELLO 3 SETNAME n
    HELLO 2 SETNAME m AUTH | HELLO 3 NOSUCH | HELLO 3 AUTH default | HELLO 3 SETNAME | AUTH x | AUTH nobody x
    AUTH a b c | AUTH | HELLO 3 AUTH nobody x | HELLO 2 AUTH nobody x SETNAME q | CLIENT GETNAME | CLIENT SETNAME me
    CLIENT SETNAME '' | CLIENT SETNAME | CLIENT NOSUCH | CLIENT | CLIENT NO-EVICT ON | CLIENT NO-EVICT maybe
    CLIENT NO-TOUCH off | CLIENT REPLY ON | CLIENT REPLY maybe | CLIENT SETINFO LIB-NAME x
    CLIENT SETINFO lib-ver 1 | CLIENT SETINFO foo x | CLIENT ID x | CLIENT GETNAME x | CLIENT UNBLOCK 999999
    CLIENT UNBLOCK x | CLIENT UNBLOCK 1 maybe | CLIENT PAUSE abc | CLIENT UNPAUSE | CLIENT KILL
    CLIENT KILL 1.2.3.4:5 | CLIENT KILL NOSUCH 1 | CLIENT PAUSE 1 maybe
    """
)
SERVER: Final = _commands(
    """
    WAIT 0 0 | WAIT x 0 | WAIT 0 -1 | WAIT | TIME x | LASTSAVE x | READONLY x | ASKING | CLUSTER INFO
    CLUSTER NOSUCH | CLUSTER | CONFIG | CONFIG NOSUCH | CONFIG GET | CONFIG GET nosuch | CONFIG SET nosuch 1
    CONFIG SET maxclients | CONFIG RESETSTAT | COMMAND NOSUCH | COMMAND INFO nosuch | COMMAND GETKEYS SET a 1
    COMMAND GETKEYS MSET a 1 b 2 | COMMAND GETKEYS PING | COMMAND GETKEYS NOSUCH x | COMMAND GETKEYS EVAL x 0
    COMMAND GETKEYS EVAL x 1 a b | COMMAND GETKEYS FCALL f 2 a | COMMAND GETKEYSANDFLAGS EVAL x 0
    COMMAND GETKEYS ZUNION 0 a | OBJECT | OBJECT NOSUCH a
    OBJECT ENCODING nosuch | MEMORY NOSUCH | MEMORY USAGE nosuch | DEBUG | SLOWLOG RESET | SLOWLOG NOSUCH
    SLOWLOG GET x | LATENCY NOSUCH | LATENCY RESET | ACL WHOAMI | ACL NOSUCH | ACL GETUSER nobody
    ACL DELUSER default | ACL CAT nosuch | FUNCTION FLUSH | ROLE x | FLUSHDB | FLUSHALL x | FLUSHDB ASYNC x
    DBSIZE x | MONITOR x | SHUTDOWN NOSUCH | SHUTDOWN SAVE NOSAVE
    """
)
BLOCKING: Final = _commands(
    """
    BLPOP l 0.01 | BRPOP nosuch l 0.01 | BLPOP l | BLPOP l abc | BLPOP l -1 | BLPOP l 1e400 | BLPOP l nan
    BLMOVE l l2 LEFT RIGHT 0.01 | BLMOVE l l2 UP DOWN 0 | BRPOPLPUSH l l2 0.01 | BLMPOP 0.01 1 l LEFT
    BLMPOP 0.01 0 l LEFT | BLMPOP 0.01 1 l MIN | BLMPOP x 1 l LEFT | BZPOPMIN z 0.01 | BZPOPMAX nosuch z 0.01
    BZMPOP 0.01 1 z MIN COUNT 2 | BZMPOP 0.01 2 z MIN | BLPOP a 0.01 | BZPOPMIN l 0.01 | BLPOP nosuch 0.01
    """
)
PUBLISHING: Final = _commands(
    """
    SUBSCRIBE c | UNSUBSCRIBE c | PSUBSCRIBE p* | PUNSUBSCRIBE p* | SSUBSCRIBE s | SUNSUBSCRIBE s | PUBLISH nobody x
    SPUBLISH nobody x | PUBSUB NUMPAT | PUBSUB NUMSUB c nobody | PUBSUB CHANNELS c | PUBSUB NOSUCH | PUBSUB
    SUBSCRIBE | PUBLISH c | UNSUBSCRIBE | PUNSUBSCRIBE | PUBSUB SHARDNUMSUB s
    """
)
UNKNOWN: Final = (
    *(Talk(encoded(["NOSUCH", *arguments])) for arguments in (["a"], ["a'b", "''"], ["x" * 30] * 9, ["x" * 500, "y"])),
    *(Talk(encoded([name, "a"])) for name in (b"", b"\xff\x00", b"no\r\nsuch", b"n" * 300, b"get ", b"'")),
    Talk(encoded(["NOSUCH", b"\x00\xff\r\n\t"])),
    Talk(encoded(["GET", "a", b"\r\n"])),
    Talk(encoded(["ECHO", b"\x00\xff\r\n"])),
)
_WORDS: Final = (
    *(b"PING", b"  GET   a ", b"SET a 'x y'", b'ECHO "\\x41\\n\\t\\"\\q"', b"SET a '\\''", b"NOSUCH a b", b"ECHO ''"),
    *(b"GET", b"\tPING", b"ECHO \x80", b"\r\n\nPING", b"multi", b"exec", b'"PING" "x"'),
)
INLINE: Final = (
    *(Talk(line + b"\r\n") for line in _WORDS),
    *(Talk(data) for data in (b"ping\n", b"*0\r\n*1\r\n$4\r\nPING\r\n", b"*-1\r\nPING\r\n", b"*1\r\n$4\r\npInG\r\n")),
)
_BROKEN: Final = (
    *(
        b"*1\r\n+OK",
        b'SET "a',
        b"ECHO a'b",
        b"*x",
        b"*",
        b"*2147483648",
        b"*1\r\n$536870913",
        b"*1\r\n$-1",
    ),
    *(b"*1\r\n$x", b"*1\r\n$", b"*1\r\n$99999999999999999999", b"*1\r\n", b"*3\r\n$3\r\nSET\r\n:1", b"*0001"),
)
ENDINGS: Final = (
    *(Talk(line + b"\r\n") for line in (*_BROKEN, b"QUIT")),
    *(Talk(encoded(words)) for words in (["QUIT"], ["quit", "x"])),
)
"""After each of these the server closes the connection."""

_SKIP: Final = (["RESET"], ["CLIENT", "REPLY", "SKIP"], ["ECHO", "lost"], ["ECHO", "seen"])
_OFF: Final = (["RESET"], ["CLIENT", "REPLY", "OFF"], ["ECHO", "lost"], ["CLIENT", "REPLY", "ON"])
SILENT: Final = tuple(Talk(b"".join(map(encoded, words)), replies=2) for words in (_SKIP, _OFF))
"""Requests whose replies the client does not want. RESET, since a MULTI would queue them, and answer each."""

_KINDS: Final = (
    *(DATA,) * 8,
    *(TRANSACTIONS,) * 8,
    *(CONNECTION,) * 4,
    *(SERVER,) * 2,
    *(UNKNOWN, INLINE, BLOCKING, PUBLISHING, SILENT),
)


PROBES: Final = tuple(
    request
    for db in (b"0", b"1", b"15")
    for request in (
        (b"SELECT", db),
        (b"DBSIZE",),
        *((b"TYPE", key) for key in (b"a", b"b", b"l", b"l2", b"h", b"e", b"e2", b"z", b"A", b"p", b"g")),
        (b"MGET", b"a", b"b", b"A", b"p"),
        (b"LRANGE", b"l", b"0", b"-1"),
        (b"LRANGE", b"l2", b"0", b"-1"),
        (b"HGETALL", b"h"),
        (b"SMEMBERS", b"e"),
        (b"SMEMBERS", b"e2"),
        (b"ZRANGE", b"g", b"0", b"-1", b"WITHSCORES"),
        (b"ZRANGE", b"z", b"0", b"-1", b"WITHSCORES"),
    )
)
"""What shows everything that a session may have left behind."""


@st.composite
def sessions(draw: DrawFn) -> list[Turn]:
    """Up to `TURNS_MAX` turns; as in `tests.differential.strategy`, Hypothesis draws the seed of it."""
    random = draw(st.randoms(use_true_random=True))
    return comparable([_turn(random) for _ in range(random.randint(1, TURNS_MAX))])


def comparable(turns: list[Turn]) -> list[Turn]:
    """The turns without what is known to differ where it could be within a MULTI.

    MULTI and WATCH: to Redis an error that changes nothing; the oracle aborts the transaction. DBSIZE and KEYS
    see all writes of the transaction (docs/redis-clients.md).
    """
    open_ones: set[int] = set()
    kept = []
    for turn in turns:
        talks = []
        for talk in turn.talks:
            word = talk.data.upper()
            nests = b"MULTI" in word or b"WATCH" in word.replace(b"UNWATCH", b"")
            if turn.client in open_ones and (nests or b"DBSIZE" in word or b"KEYS" in word):
                continue
            talks.append(talk)
            if b"MULTI" in word:
                open_ones.add(turn.client)
            elif talk in _ENDING_TRANSACTIONS:
                open_ones.discard(turn.client)
        if turn.ends:
            open_ones.discard(turn.client)
        kept.append(turn._replace(talks=tuple(talks)))
    return [turn for turn in kept if turn.talks]


def _turn(random: Random) -> Turn:
    talks: list[Talk] = [random.choice(random.choice(_KINDS)) for _ in range(random.randint(1, _TURN_MAX))]
    ends = random.randrange(25) == 0
    if ends:
        talks.append(random.choice(ENDINGS))
    return Turn(random.randrange(CLIENTS), tuple(talks), ends)
