"""The plays of `scripts.play`: what they compare is said by the tests that run them, in memory and over sockets."""

from __future__ import annotations

from typing import Final

PUBSUB: Final = """
    a: SUBSCRIBE x y x
    b: PSUBSCRIBE x*
    a: SSUBSCRIBE s1 s2
    c: PUBLISH x hello
    c: PUBLISH nobody hello
    c: SPUBLISH s1 hello
    c: SPUBLISH x hello
    c: PUBSUB CHANNELS
    c: PUBSUB CHANNELS y*
    c: PUBSUB NUMSUB
    c: PUBSUB NUMSUB x y z x
    c: PUBSUB NUMPAT
    c: PUBSUB SHARDCHANNELS
    c: PUBSUB SHARDCHANNELS s1
    c: PUBSUB SHARDNUMSUB s1 s3
    c: PUBSUB SHARDNUMSUB
    c: PUBSUB CHANNELS a b
    c: PUBSUB SHARDCHANNELS a b
    c: PUBSUB FOO
    c: PUBSUB
    c: PUBSUB NUMPAT a
    c: PUBSUB HELP x
    a: PUBSUB NUMPAT
    a: ECHO x
    a: CLIENT ID x
    a: PING
    a: PING hi
    a: UNSUBSCRIBE zz x
    a: UNSUBSCRIBE
    a: UNSUBSCRIBE
    a: SUNSUBSCRIBE q
    a: SUNSUBSCRIBE s2
    a: SUNSUBSCRIBE
    a: SUNSUBSCRIBE
    a: PUNSUBSCRIBE
    a: PUNSUBSCRIBE x
    a: ECHO x
    a: SUBSCRIBE
    a: SSUBSCRIBE
    a: PSUBSCRIBE
    a: PUBLISH
    a: PUBLISH x
    a: SPUBLISH x
    a: PUBLISH x y z
    a: MULTI
    a: SUBSCRIBE m
    a: PSUBSCRIBE m
    a: PUBLISH q x
    a: EXEC
    a: UNSUBSCRIBE
    b: RESET
    c: PUBLISH xx y
    a: QUIT
    c: PUBLISH m q
    c: PUBSUB NUMPAT
"""

OWN_MESSAGES: Final = """
    a: SUBSCRIBE x
    a: PSUBSCRIBE x*
    a: UNSUBSCRIBE x
    a: PUNSUBSCRIBE
    a: SUBSCRIBE x
    a: PUBLISH x m
    b: PUBLISH x n
    a: MULTI
    a: PING one
    a: PUBLISH x m
    a: PUBLISH x n
    a: PING two
    a: EXEC
    a: MULTI
    a: UNSUBSCRIBE x
    a: EXEC
    a: SSUBSCRIBE s
    a: SPUBLISH s m
"""
"""In RESP3 alone: a RESP2 client that listens publishes nothing."""

SILENCED: Final = """
    a: CLIENT REPLY OFF
    a: SUBSCRIBE x
    a: PSUBSCRIBE x*
    b: PUBLISH x m
    a: SSUBSCRIBE s
    a: UNSUBSCRIBE x
    a: PUNSUBSCRIBE
    a: SUNSUBSCRIBE s
    a: UNSUBSCRIBE
    a: PING
    c: CLIENT REPLY SKIP
    c: SUBSCRIBE x y
    c: UNSUBSCRIBE
    c: CLIENT REPLY SKIP
    c: PING
    c: PING
    c: CLIENT REPLY OFF
    c: PING
    c: CLIENT REPLY ON
    c: PING
"""

CLIENT: Final = """
    a: SUBSCRIBE x
    a: CLIENT ID x
    b: CLIENT SETNAME 'a b'
    b: CLIENT SETNAME ab
    b: CLIENT GETNAME
    b: CLIENT SETNAME ''
    b: CLIENT GETNAME
    b: CLIENT GETNAME x
    b: CLIENT SETINFO LIB-NAME 'x y'
    b: CLIENT SETINFO lib-ver 'x y'
    b: CLIENT SETINFO LIB-NAME re
    b: CLIENT SETINFO lib-foo re
    b: CLIENT SETINFO lib-ver 1
    b: CLIENT SETINFO
    b: CLIENT LIST TYPE x
    b: CLIENT LIST TYPE replica
    b: CLIENT LIST TYPE slave
    b: CLIENT LIST TYPE master
    b: CLIENT LIST TYPE primary
    b: CLIENT LIST ID 99999
    b: CLIENT LIST FOO 1
    b: CLIENT LIST FOO
    b: CLIENT LIST USER nope
    b: CLIENT LIST NOT-USER nope
    b: CLIENT LIST NOT-USER default
    b: CLIENT LIST MAXAGE x
    b: CLIENT LIST MaxAge 0
    b: CLIENT LIST MAXAGE 100000
    b: CLIENT LIST NOT-MAXAGE 1
    b: CLIENT LIST IDLE x
    b: CLIENT LIST IDLE 0
    b: CLIENT LIST IDLE -1
    b: CLIENT LIST IDLE 1000
    b: CLIENT LIST NOT-IDLE 1000
    b: CLIENT LIST SKIPME maybe
    b: CLIENT LIST NOT-SKIPME yes
    b: CLIENT LIST FLAGS Q
    b: CLIENT LIST FLAGS -
    b: CLIENT LIST FLAGS b
    b: CLIENT LIST NOT-FLAGS Z
    b: CLIENT LIST NAME q
    b: CLIENT LIST NAME ''
    b: CLIENT LIST DB 99
    b: CLIENT LIST dB x
    b: CLIENT LIST not-dB x
    b: CLIENT LIST NOT-DB 16
    b: CLIENT LIST DB 7
    b: CLIENT LIST CAPA r
    b: CLIENT LIST CAPA x
    b: CLIENT LIST NOT-CAPA x
    b: CLIENT LIST IP 1.2.3.4
    b: CLIENT LIST LIB-NAME ''
    b: CLIENT LIST LIB-NAME zz
    b: CLIENT LIST LIB-VER zz
    b: CLIENT LIST ADDR x
    b: CLIENT LIST LADDR x
    b: CLIENT LIST TYPE normal TYPE replica
    b: CLIENT LIST ID 99999 MAXAGE 1
    b: CLIENT LIST NOT-ID 0
    b: CLIENT LIST NOT-TYPE x
    b: CLIENT KILL
    b: CLIENT KILL 1.1.1.1:1
    b: CLIENT KILL ID 99999
    b: CLIENT KILL FOO 1
    b: CLIENT KILL TYPE x
    b: CLIENT KILL USER nobody
    b: CLIENT KILL SKIPME x
    b: CLIENT KILL MAXAGE 0
    b: CLIENT KILL MAXAGE x
    b: CLIENT KILL a b c
    b: CLIENT KILL SKIPME yes TYPE replica
    b: CLIENT KILL TYPE pubsub
    a: PING
    b: CLIENT PAUSE
    b: CLIENT PAUSE x
    b: CLIENT PAUSE -1
    b: CLIENT PAUSE 00
    b: CLIENT PAUSE 1 foo
    b: CLIENT PAUSE 0 write x
    b: CLIENT PAUSE 9223372036854775807
    b: CLIENT UNPAUSE
    b: CLIENT UNPAUSE x
    b: CLIENT UNBLOCK x
    b: CLIENT UNBLOCK 99999
    b: CLIENT UNBLOCK 99999 foo
    b: CLIENT UNBLOCK 99999 TIMEOUT x
    b: CLIENT UNBLOCK 99999 ERROR
    b: CLIENT REPLY x
    b: CLIENT REPLY on
    b: CLIENT REPLY on a
    b: CLIENT REPLY SKIP
    b: PING
    b: PING
    b: PING
    b: CLIENT REPLY SKIP
    b: PING
    b: PING
    b: CLIENT REPLY ON
    b: PING
    b: CLIENT NO-EVICT x
    b: CLIENT NO-EVICT on
    b: CLIENT NO-EVICT off
    b: CLIENT NO-TOUCH on
    b: CLIENT NO-TOUCH off
    b: CLIENT NO-TOUCH x
    b: CLIENT GETREDIR
    b: CLIENT TRACKINGINFO
    b: CLIENT TRACKING OFF
    b: CLIENT TRACKING x
    b: CLIENT TRACKING off foo
    b: CLIENT TRACKING
    b: CLIENT CACHING yes
    b: CLIENT CACHING
    b: CLIENT CAPA redirect
    b: CLIENT CAPA foo bar
    b: CLIENT CAPA
    b: CLIENT MAINT_NOTIFICATIONS ON moving-endpoint-type external-ip
    b: CLIENT
    b: CLIENT foo
    b: MULTI
    b: CLIENT GETNAME
    b: CLIENT SETNAME x
    b: CLIENT GETNAME
    b: EXEC
    b: DISCARD
    c: PING
    b: CLIENT KILL SKIPME yes TYPE normal ID 1
    b: CLIENT KILL SKIPME no TYPE pubsub
    b: CLIENT KILL LADDR x
    b: CLIENT KILL NAME x SKIPME no
    b: PING
"""

MONITOR: Final = """
    a: PING
    m: MONITOR
    m: MONITOR
    a: ECHO x
    a: echo "a b"
    a: nosuch a
    a: ECHO
    a: CONFIG GET save
    a: CLIENT LIST ID 999999
    a: CLIENT SETNAME x
    a: PUBLISH x y
    a: SUBSCRIBE x
"""

LATENCY: Final = """
    a: LATENCY LATEST
    a: LATENCY HISTORY x
    a: LATENCY HISTORY
    a: LATENCY RESET
    a: LATENCY RESET x y
    a: LATENCY GRAPH x
    a: LATENCY GRAPH
    a: LATENCY FOO
    a: LATENCY
    a: LATENCY LATEST x
    a: LATENCY DOCTOR x
    a: CONFIG RESETSTAT
    a: LATENCY HISTOGRAM nosuch
    a: LATENCY HISTOGRAM set get
"""

NOTIFICATIONS: Final = """
    a: CONFIG SET notify-keyspace-events KEA
    s: PSUBSCRIBE __key*__:*
    a: SET key value EX 1000
    a: SET key value
    a: HSET hash f 1 g 2
    a: HDEL hash f g
    a: RPUSH list a b c
    a: LMOVE list other LEFT RIGHT
    a: LPOP list 5
    a: ZADD scored 1 a 2 b
    a: ZINCRBY scored 1 a
    a: ZPOPMIN scored 5
    a: SADD members a b
    a: SREM members a b
    a: INCR count
    a: INCR key
    a: EXPIRE count 1000
    a: PERSIST count
    a: EXPIRE count -1
    a: MSET m1 1 m2 2
    a: DEL m1 m2 m3
    a: MULTI
    a: SET in 1
    a: APPEND in 2
    a: LPUSH in 3
    a: GETDEL in
    a: EXEC
    s: SET own 1
    s: INCR own
    a: SELECT 3
    a: SET there 1
    a: DEL there
    a: CONFIG SET notify-keyspace-events Ex
    a: SET quiet 1
    a: CONFIG SET notify-keyspace-events K$
    a: SET loud 1 EX 1000
    a: CONFIG SET notify-keyspace-events ''
    a: SET quiet 1
    a: FLUSHALL
"""
