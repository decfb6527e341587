"""The plays of CLIENT TRACKING: what they compare is said by the tests that run them over sockets."""

from __future__ import annotations

from typing import Final

from tests.resp.tracking_of_streams import STREAMS

_DEFAULT: Final = """
    a: CLIENT TRACKING ON
    b: SET k1 1
    a: GET k1
    a: GET absent
    a: MGET k1 k2 k3
    b: MSET k3 1 k1 1 k9 1
    b: SET k1 2
    b: SET absent 1
    a: LPUSH k2 x
    a: GET k2
    b: DEL k2
    a: GET k1
    a: SET k1 3
    a: SET k1 4
    a: STRLEN k1
    b: APPEND k1 x
    a: TYPE h
    a: HGETALL h
    b: HSET h f 1 g 2
    a: HGET h f
    b: HDEL h absent
    b: HDEL h f
    a: EXISTS x y z
    b: RENAME k1 y
    a: TTL h
    b: EXPIRE h 1000
    a: LLEN l
    b: RPUSH l a b c
    a: LRANGE l 0 -1
    b: LMOVE l l2 LEFT RIGHT
    a: SCARD s
    b: SADD s m
    a: SMEMBERS s
    b: SADD s m
    b: SREM s m
    a: ZRANGE z 0 -1
    b: ZADD z 1 m
    a: ZCARD z
    b: ZADD z 2 m
    a: OBJECT ENCODING z
    b: DEL z
    a: SORT_RO l
    b: SORT l ALPHA STORE l
    a: GETRANGE k1 0 1
    b: SETRANGE k1 0 x
    a: PFCOUNT p
    b: PFADD p a
    a: GEODIST g a b
    b: GEOADD g 1 1 a
    a: BITCOUNT bits
    b: SETBIT bits 7 1
    a: LCS one two
    b: MSET one 1 two 2
    a: SELECT 1
    a: GET other
    b: SET other 1
    a: SELECT 0
    a: GETEX k9
    a: GETSET k9 1
    a: SPOP nothing
    b: MSET k9 1 nothing 1
    a: PING
"""

_SCRIPTS: Final = """
    b: MSET k1 1 k2 2 k3 3
    a: CLIENT TRACKING ON
    a: EVAL_RO "return {redis.call('GET', KEYS[1]), redis.call('GET', 'k3')}" 2 k1 k2
    b: SET k1 x
    b: SET k2 x
    b: SET k3 x
    a: EVAL_RO "redis.pcall('LLEN', 'k1') redis.pcall('GET') redis.pcall('NOSUCH', 'k2')" 0
    b: SET k1 y
    b: SET k2 y
    a: EVAL_RO "redis.call('GET', 'k1') return redis.error_reply('X x')" 1 k2
    b: SET k1 1
    b: SET k2 1
    a: EVAL_RO "return redis.pcall('SET', 'k1', '1')" 1 k1
    a: EVAL_RO "return (" 1 k1
    b: SET k1 1
    a: SCRIPT LOAD "return redis.call('MGET', unpack(KEYS))"
    a: EVALSHA_RO b272298fae5e83182e7719c6be8d1ef76a62465f 1 k1
    b: SET k1 1
    a: SET w 1 ; EVAL_RO "return redis.call('GET', 'k3')" 1 k1
    b: SET k1 2
    b: SET k3 2
    a: MULTI
    a: EVAL_RO "return redis.call('GET', 'k1')" 1 k3
    a: GET k2
    a: EXEC
    b: SET k1 2
    b: SET k2 2
    b: SET k3 2
    a: CLIENT TRACKING OFF
    a: CLIENT TRACKING ON OPTIN
    a: EVAL_RO "return redis.call('GET', 'k1')" 0
    a: CLIENT CACHING YES
    a: EVAL_RO "return redis.call('GET', 'k2')" 0
    b: SET k1 3
    b: SET k2 3
    a: PING
"""

_TRANSACTIONS: Final = """
    a: CLIENT TRACKING ON
    b: SET k1 1
    a: GET k1
    a: MULTI
    a: SET k1 3
    a: GET k1
    a: GET k2
    a: EXEC
    b: SET k1 4
    b: SET k2 4
    a: MULTI
    a: GET k1
    a: SET k1 5
    a: EXEC
    b: SET k1 6
    a: MULTI
    a: GET k1
    a: GET k3
    a: EXEC
    b: MULTI
    b: INCR k3
    b: INCR k1
    b: INCR k3
    b: EXEC
    a: GET k1
    a: WATCH k1
    b: SET k1 1
    a: MULTI
    a: GET k1
    a: EXEC
    b: SET k1 1
    a: GET k1
    a: MULTI
    a: SET k1 5
    a: FLUSHALL
    a: SET k1 6
    a: EXEC
    b: SET k1 7
    a: GET k1
    a: MULTI
    a: FLUSHDB
    a: PING
    a: EXEC
    a: MULTI
    a: GET k1
    a: PING
    a: EXEC
    b: SET k1 8
    a: MULTI
    a: INCR k1
    a: PING
    a: GET k1
    a: EXEC
    b: SET k1 9
    a: PING
"""

_OPTIONS: Final = """
    a: CLIENT CACHING YES
    a: CLIENT TRACKINGINFO
    a: CLIENT GETREDIR
    a: CLIENT TRACKING ON OPTIN
    a: CLIENT CACHING YES
    a: CLIENT TRACKINGINFO
    a: GET k1
    a: CLIENT TRACKINGINFO
    a: CLIENT CACHING YES
    a: NOSUCH
    a: GET k2
    a: CLIENT CACHING yes
    a: PING
    a: GET k3
    a: CLIENT CACHING YES
    a: MULTI
    a: GET k4
    a: GET k5
    a: EXEC
    a: GET k6
    a: CLIENT CACHING YES
    a: MULTI
    a: DISCARD
    a: GET k7
    a: CLIENT CACHING YES
    a: MULTI
    a: SET k8 1
    a: GET k8
    a: EXEC
    b: MSET k1 1 k2 1 k3 1 k4 1 k5 1 k6 1 k7 1 k8 1
    a: CLIENT CACHING NO
    a: CLIENT CACHING x
    a: CLIENT CACHING
    a: CLIENT TRACKING ON OPTOUT
    a: CLIENT TRACKING ON
    a: CLIENT TRACKINGINFO
    a: CLIENT TRACKING OFF
    a: CLIENT TRACKING ON OPTOUT
    a: CLIENT CACHING YES
    a: CLIENT CACHING NO
    a: CLIENT TRACKINGINFO
    a: GET k1
    a: GET k2
    b: MSET k1 1 k2 1
    a: CLIENT TRACKING OFF
    a: CLIENT TRACKING ON NOLOOP
    a: CLIENT TRACKINGINFO
    a: MGET k1 k2 k3
    a: SET k1 1
    b: SET k1 2
    b: SET k2 2
    a: MULTI
    a: INCR k3
    a: GET k3
    a: EXEC
    b: SET k3 1
    a: GET k1
    a: FLUSHALL
    a: CLIENT TRACKING ON BCAST
    a: CLIENT TRACKING OFF
    a: CLIENT TRACKING OFF
    a: CLIENT TRACKING ON OPTIN OPTOUT
    a: CLIENT TRACKING ON BCAST OPTIN
    a: CLIENT TRACKING ON BCAST OPTOUT PREFIX a
    a: CLIENT TRACKING ON PREFIX x
    a: CLIENT TRACKING ON REDIRECT 9999
    a: CLIENT TRACKING ON REDIRECT x
    a: CLIENT TRACKING ON REDIRECT 0
    a: CLIENT TRACKING ON REDIRECT
    a: CLIENT TRACKING ON REDIRECT @b REDIRECT @b
    a: CLIENT TRACKING ON PREFIX
    a: CLIENT TRACKING maybe
    a: CLIENT TRACKING maybe REDIRECT 9999
    a: CLIENT TRACKING off foo
    a: CLIENT TRACKING
    a: CLIENT TRACKINGINFO x
    a: CLIENT GETREDIR x
    a: CLIENT TRACKING on noloop optin
    a: CLIENT TRACKINGINFO
    a: RESET
    a: CLIENT TRACKINGINFO
    a: PING
"""

_BROADCAST: Final = """
    a: CLIENT TRACKING ON BCAST PREFIX b PREFIX a PREFIX cc
    b: MSET b1 1 a2 2 a1 3 x 1
    a: SET a1 3
    a: GET a1
    b: FLUSHALL
    a: CLIENT TRACKINGINFO
    a: CLIENT GETREDIR
    a: CLIENT TRACKING ON BCAST PREFIX d
    a: CLIENT TRACKINGINFO
    a: CLIENT TRACKING ON BCAST PREFIX d
    a: CLIENT TRACKING ON BCAST PREFIX ddd
    a: CLIENT TRACKING ON BCAST PREFIX c
    a: CLIENT TRACKING ON BCAST PREFIX zz PREFIX z
    a: CLIENT TRACKING ON BCAST PREFIX z PREFIX zz
    b: SET d 1
    b: MULTI
    b: INCR a:1
    b: INCR a:2
    b: INCR b:1
    b: INCR c:1
    b: EXEC
    b: CLIENT TRACKING ON BCAST
    b: CLIENT TRACKING ON BCAST PREFIX b
    b: SET b1 4
    b: SET other 4
    a: CLIENT TRACKING OFF
    b: CLIENT TRACKING OFF
    a: CLIENT TRACKING ON BCAST NOLOOP PREFIX b PREFIX a
    a: MSET a1 1 b1 1
    b: MSET a1 1 b2 1
    a: MULTI
    a: SET a1 2
    a: EXEC
    b: DEL a1
    b: SETNX b2 1
    a: CLIENT TRACKING ON
    a: CLIENT TRACKING OFF
    b: SET a1 1
    a: PING
"""

_REDIRECT: Final = """
    b: PING
    a: CLIENT TRACKING ON REDIRECT @b
    a: GET q
    c: SET q 1
    a: GET q
    b: SUBSCRIBE ch
    c: SET q 1
    a: GET q
    a: SET q 2
    c: FLUSHALL
    a: CLIENT TRACKING ON REDIRECT @b NOLOOP
    a: GET q
    a: SET q 3
    c: SET q 4
    b: UNSUBSCRIBE ch
    a: GET q
    c: SET q 5
    b: SUBSCRIBE __redis__:invalidate
    a: GET q
    c: SET q 6
    c: CLIENT TRACKING ON REDIRECT @b
    c: GET q
    a: GET q
    c: SET q 7
    b: QUIT
    a: GET q
    c: SET q 8
    a: GET q
    c: SET q 8
    c: CLIENT TRACKING OFF
    c: PING
    a: CLIENT TRACKING ON REDIRECT @c
    a: GET q
    c: HELLO 3
    c: SET q 9
    a: GET q
    a: HELLO 3
    d: SET q 9
    a: CLIENT TRACKING ON REDIRECT @a
    a: GET q
    d: SET q 9
    a: GET q
    a: SET q 9
    a: CLIENT TRACKING OFF
    a: CLIENT TRACKING ON BCAST REDIRECT @c
    d: SET q 9
    a: PING
"""

_BLOCKED: Final = """
    a: CLIENT TRACKING ON
    a: LRANGE list2 0 -1
    a: BLMOVE list1 list2 LEFT LEFT 0
    b: RPUSH list1 foo
    a: LLEN list1
    a: GET x
    a: BLPOP empty 0
    b: SET x 1
    b: RPUSH empty 1
    a: PING
"""

PLAYS: Final = {
    "default": _DEFAULT,
    "transactions": _TRANSACTIONS,
    "options": _OPTIONS,
    "broadcast": _BROADCAST,
    "redirect": _REDIRECT,
    "blocked": _BLOCKED,
    "scripts": _SCRIPTS,
    "streams": STREAMS,
}
