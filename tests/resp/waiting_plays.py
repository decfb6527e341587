"""Plays of clients that wait for elements and of clients that push them.

Each ends with what is left. `a`, `b`, `c` … wait; `p` and `q` do not.
"""

from __future__ import annotations

from typing import Final

PLAYS: Final = {
    "the pusher pops": """
        a: BLPOP ml 0
        p: LPUSH ml a ; LPOP ml ; LLEN ml
        a: BRPOP ml 0
        p: RPUSH ml a b ; LLEN ml ; LPOP ml ; LPOP ml
        a: BZPOPMIN z 0
        p: ZADD z 1 x ; ZPOPMIN z ; ZCARD z
        a: BZPOPMAX z 0
        p: ZADD z 1 x 2 y ; ZPOPMAX z ; ZPOPMAX z
        a: BZPOPMIN z 0
        p: ZINCRBY z 5 x ; ZSCORE z x
        a: BZPOPMIN z 0
        p: GEOADD z 13 38 x ; ZSCORE z x ; GEOADD z NX CH 13 38 y ; ZCARD z
        p: DBSIZE
    """,
    "many wait": """
        a: BLPOP q 0
        b: BLPOP r q 0
        c: BLMPOP 0 2 q r LEFT COUNT 2
        d: BRPOP r 0
        e: BLPOP q 0
        p: RPUSH q 1 ; LRANGE q 0 -1 ; RPUSH q 2 3 ; LRANGE q 0 -1 ; RPUSH r 4 5 6 7 ; LRANGE r 0 -1
        p: RPUSH q 8 9 10 ; LPOP q
        e: BLPOP q r 0
        p: DBSIZE
    """,
    "chains of moves": """
        a: BLMOVE l0 l1 LEFT RIGHT 0
        b: BLMOVE l1 l2 LEFT RIGHT 0
        c: BLMOVE l2 l3 LEFT RIGHT 0
        p: RPUSH l0 x ; LLEN l0 ; LLEN l1 ; LLEN l2 ; LRANGE l3 0 -1
        a: BLMOVE l0 l1 LEFT LEFT 0
        b: BRPOPLPUSH l1 l0 0
        c: BLPOP l0 0
        p: LPUSH l0 y ; LPOP l0 ; LPOP l1
        a: BLMOVE s s LEFT RIGHT 0
        b: BLPOP s 0
        p: RPUSH s 1 2 ; LRANGE s 0 -1
        p: DBSIZE
    """,
    "a chain serves its keys in turn": """
        a: BLMOVE k l LEFT RIGHT 0
        b: BLPOP k l 0
        c: BLPOP l 0
        p: RPUSH k 1 2 ; LPOP k ; LPOP l
        d: BLPOP l 0
        a: BLMOVE k l LEFT RIGHT 0
        b: BLPOP k l 0
        p: RPUSH k 3 ; LPOP k ; LPOP l
        p: RPUSH l 4 ; LPOP l ; RPUSH k 5 6 ; LPOP k
        p: DBSIZE
    """,
    "transactions": """
        a: BLPOP q 0
        b: BLPOP r q 0
        p: MULTI ; RPUSH q 1 ; RPUSH r 2 ; LLEN q ; EXEC ; LPOP q ; LPOP r
        a: BLPOP q 0
        b: BLPOP q 0
        p: MULTI ; RPUSH q 1 2 ; LPOP q ; EXEC ; LPOP q
        p: MULTI ; RPUSH q 1 ; DEL q ; EXEC ; MULTI ; RPUSH q 3 ; EXEC ; LPOP q
        a: BZPOPMIN z 0
        p: MULTI ; ZADD z 1 x ; RENAME z y ; EXEC ; MULTI ; RENAME y z ; EXEC ; ZPOPMIN z
        a: BLMOVE k l LEFT RIGHT 0
        b: BLPOP l 0
        p: MULTI ; RPUSH k 1 ; LPOP k ; RPUSH k 2 ; EXEC ; DBSIZE
    """,
    "several keys at once": """
        a: BLPOP j k 0
        b: BLPOP k 0
        c: BLPOP j 0
        p: MULTI ; RPUSH k 1 ; RPUSH j 2 ; EXEC ; LPOP k ; LPOP j
        p: MULTI ; RPUSH j 3 ; RPUSH k 4 ; EXEC ; LPOP k ; LPOP j
        a: BLMPOP 0 2 j k LEFT COUNT 3
        p: MULTI ; RPUSH k 5 6 ; RPUSH j 7 ; EXEC ; LPOP j ; LPOP k ; LPOP k
        p: DBSIZE
    """,
    "other ways": """
        p: RPUSH x 1 ; ZADD y 1 m
        a: BLPOP q 0
        p: RENAME x q ; LPOP q
        a: BLPOP q 0
        p: RPUSH x 1 ; COPY x q ; LPOP q ; LMOVE x q LEFT RIGHT ; LPOP q
        a: BLPOP q 0
        p: RPUSH x 2 1 ; SORT x STORE q ; LPOP q ; LPOP q
        a: BZMPOP 0 2 w v MIN COUNT 2
        p: ZUNIONSTORE v 1 y ; ZPOPMIN v
        a: BZPOPMIN v 0
        p: ZRANGESTORE v y 0 -1 ; ZCARD v
        a: BZPOPMIN v 0
        p: ZRANGESTORE v none 0 -1 ; ZDIFFSTORE v 1 y ; ZCARD v
        a: BZPOPMIN v 0
        p: RENAMENX y v ; ZCARD v
        a: BLPOP q 0
        p: LPUSHX q 1 ; RPUSHX q 1 ; LPUSH q 2 ; LPUSHX q 3
        p: DBSIZE
    """,
    "other databases": """
        a: SELECT 1
        a: BLPOP q 0
        b: BLPOP q 0
        p: RPUSH q 0 ; LPOP q ; SELECT 1 ; RPUSH q 1 ; LPOP q
        a: BLPOP q 0
        b: BLPOP q 0
        p: SELECT 2 ; RPUSH q 2 ; MOVE q 1 ; SELECT 1 ; LPOP q
        p: SELECT 2 ; RPUSH q 3 ; COPY q q DB 0 ; SELECT 0 ; LPOP q
        a: BLPOP q 0
        p: SELECT 2 ; RPUSH q 4 ; SWAPDB 1 2 ; SELECT 1 ; LPOP q ; LLEN q
        a: BLPOP q 0
        p: SELECT 0 ; MULTI ; RPUSH q 5 ; SELECT 1 ; RPUSH q 6 ; EXEC ; LPOP q ; SELECT 0 ; LPOP q
        p: FLUSHALL
    """,
    "who is gone": """
        a: BLPOP q 0
        b: BLPOP q 0
        p: CLIENT KILL ID @a ; RPUSH q 1 ; LPOP q
        c: BLPOP q 0
        d: BLPOP q 0
        p: CLIENT UNBLOCK @c ; RPUSH q 2 ; LPOP q
        c: BLPOP q 0
        d: BLPOP q 0
        p: CLIENT UNBLOCK @d ERROR ; RPUSH q 3 4 ; LPOP q
        p: RPUSH q 5 ; CLIENT UNBLOCK @d
        d: BLPOP q 0.01
        d: BLPOP q 0.01
        p: RPUSH q 6 ; LPOP q
    """,
    "other types": """
        a: BLPOP q 0
        b: BZPOPMIN q 0
        p: SET q s
        p: LPUSH q x
        p: ZADD q 1 x
        p: DEL q ; SADD q m ; DEL q ; ZADD q 1 x ; ZCARD q ; RPUSH q y ; LPOP q
        p: SET s x
        a: BLMOVE q s LEFT LEFT 0
        c: BLPOP q 0
        p: RPUSH q 1 ; LPOP q
        a: BLPOP j q 0
        p: SET j x ; RPUSH q 2 ; LPOP q
        a: BLPOP q 0
        p: SET q x ; RPUSH y 3 ; RENAME y q ; LPOP q
        p: DBSIZE
    """,
    "a push that nobody can see through": """
        a: BLPOP q 0
        b: BLPOP q 0
        p: RPUSH x 1 2 3 ; RENAME x q ; LPOP q ; LPOP q
        a: BZPOPMIN q 0
        p: ZADD x 1 m 2 n ; ZRANGESTORE q x 0 0 ; ZCARD q ; ZUNIONSTORE q 1 x ; ZCARD q
        a: BZPOPMIN w 0
        b: BLPOP w 0
        p: RPUSH x2 1 ; COPY x2 w ; LLEN w
        p: COPY x w ; ZCARD w
        p: DBSIZE
    """,
}
