"""Commands after which keyspace notifications are compared with those of valkey-server, type by type."""

from __future__ import annotations

from typing import Final

STRINGS: Final = """
    SET a 1 | SET a 2 EX 1000 | SET a 2 KEEPTTL | SET a 3 NX | SET a 3 XX GET | SET a 4 IFEQ 3 | SET new 4 IFEQ ex
    SET a 2 PXAT 1 | SET a 2 PXAT 1 | SET a ex | SET a px IFEQ ex
    SETNX a 3 | SETNX b 3 | SETEX b 1000 3 | PSETEX b 1000000 3 | GETSET b 4 | GETSET c 4 | SET b 1
    GETEX b EX 1000 | GETEX b PERSIST | GETEX b PERSIST | GETEX b | GETEX b PXAT 1 | GETEX b EX 1000
    GETDEL a | GETDEL a
    MSET a 1 b 2 a 3 | MSETNX a 1 c 2 | MSETNX d 1 e 2 | INCR a | INCR n | DECR n | INCRBY n 3 | DECRBY a 2
    INCRBYFLOAT a 1.5 | APPEND a x | APPEND app x | SETRANGE a 2 zz | SETRANGE a 2 '' | SETRANGE nn 2 zz
    DEL a b zz a | UNLINK e zz | SET l 1 | LPUSH l 1
"""
HASHES: Final = """
    HSET h f 1 g 2 | HSET h f 1 | HMSET h f 1 | HSETNX h f 2 | HSETNX h f3 2 | HINCRBY h f 1 | HINCRBYFLOAT h f 1.5
    HDEL h zz | HDEL h f | HDEL h g f3 | HINCRBY h f 1 | HDEL h f
    HSETEX h FIELDS 1 f 1 | HSETEX h EX 100 FIELDS 2 f 1 g ex | HSETEX h FNX FIELDS 1 f 1
    HSETEX h KEEPTTL FIELDS 1 f 1 | HSETEX h FIELDS 1 ex 5
    HEXPIRE h 100 FIELDS 2 f g | HEXPIRE h 100 NX FIELDS 2 f g | HPEXPIREAT h 4102444800000 FIELDS 2 f zz
    HPERSIST h FIELDS 2 f g | HPERSIST h FIELDS 2 f g | HGETEX h FIELDS 1 f | HGETEX h EX 100 FIELDS 2 zz f
    HGETEX h PERSIST FIELDS 2 f g | HGETEX h PERSIST FIELDS 1 f | HGETEX h pxat 1 FIELDS 2 f f | HSET h f 1 i 2
    HDEL h i | HPEXPIRE h 0 FIELDS 1 zz | HSETEX h EXAT 1 FIELDS 1 zz 1
    HEXPIREAT h 4102444800 FIELDS 2 f g | HDEL h f g
    HSETEX h PX 0 FIELDS 1 f 1 | HSETEX h PXAT 1 FIELDS 1 f 1 | HSETEX h exat\0 9000000000 FIELDS 2 px 1 f 2
    HGETEX h PX 0 FIELDS 2 px f | HGETDEL h FIELDS 1 f | HSET h f 1 g 2 | HGETDEL h FIELDS 2 f zz | HGETDEL h FIELDS 1 g
"""
LISTS: Final = """
    RPUSH l a b c d e f | LPUSH l x | LPUSHX nol x | RPUSHX l x | LPUSHX l x | LSET l 0 q | LSET l 0 q | LPOP l
    LPOP l 0 | RPOP l 2 | LTRIM l 1 -2 | LTRIM l 5 1 | RPUSH l a b c d e f g h
    LMOVE l l2 LEFT RIGHT | LMOVE l l RIGHT LEFT | LMOVE nol l LEFT LEFT | RPOPLPUSH l2 l | LMPOP 2 l2 l LEFT COUNT 1
    LMPOP 1 l RIGHT | LMPOP 1 l RIGHT COUNT 99 | LPUSH l x | LMOVE l l LEFT RIGHT | RPOPLPUSH l l | RPOPLPUSH l l3
    LPOP l3 5 | RPOP l3
"""
SETS: Final = """
    SADD s a b c d | SADD s a | SREM s zz | SREM s a | SREM s b c d | SADD s a b c d | SPOP s 99 | SADD s a | SPOP s
    SPOP s
"""
SORTED_SETS: Final = """
    ZADD z 1 a 2 b 3 c 4 d 5 e 6 f | ZADD z 1 a | ZADD z XX 1 q | ZADD z CH 7 a | ZADD z INCR 1 a | ZADD z XX INCR 1 q
    ZINCRBY z 0 a | ZINCRBY z 1 a | ZREM z q | ZREM z a | ZPOPMIN z | ZPOPMAX z 1 | ZPOPMAX z 0 | ZMPOP 1 z MIN
    ZMPOP 2 y z MAX COUNT 99 | ZADD z INCR 1 a | ZREM z a | ZADD z 1 a | ZPOPMIN z 5
"""
EXPIRY: Final = """
    SET a 1 | EXPIRE a 1000 | EXPIRE a 1000 NX | PERSIST a | PERSIST a | EXPIRE zz 100 | EXPIRE a -1 | SET a 1
    PEXPIREAT a 9000000000000 GT | PEXPIRE a 10000000 | PEXPIREAT a 1 | HSET h f 1 | EXPIREAT h 1
    SADD s 1 | EXPIREAT s 99999999999
"""
LATER: Final = """
    SET a 1 | SET b 1 | MSETEX 2 d 1 d 2 EX 1000 | MSETEX 1 d 1 | DELIFEQ d 1
    SETBIT bb 7 1 | BITOP AND bc bb bb | BITOP AND bc zz zy | BITFIELD bb SET u8 0 9 | PFADD hl a | PFMERGE hl2 hl
    HSET h q 1 | HGETDEL h FIELDS 1 q | RPUSH l 3 1 2 3 | LINSERT l BEFORE 1 z | LINSERT l BEFORE nope z | LREM l 0 3
    SORT l ALPHA STORE sl | SORT nope STORE sl | LREM l 0 1
    SADD s a b c | SMOVE s s2 zz | SMOVE s s2 c | SMOVE s s2 b | SMOVE s s2 a | SMOVE s2 s c | SADD s2 c | SMOVE s2 s c
    SINTERSTORE si s s2 | SUNIONSTORE si s s2 | SDIFFSTORE si s s | SDIFFSTORE si s s
    ZADD z 1 a 2 b 3 c 4 d 5 e 6 f | ZREMRANGEBYRANK z 0 0 | ZREMRANGEBYSCORE z 2 2 | ZREMRANGEBYLEX z - [c
    ZRANGESTORE zz z 0 -1 | ZRANGESTORE zz z 5 1 | ZUNIONSTORE zz 1 z | ZUNIONSTORE zz 1 z WEIGHTS 2
    ZINTERSTORE zz 1 z | ZDIFFSTORE zd 2 z nope | ZINTERSTORE zz 2 z nope | ZREMRANGEBYRANK z 0 -1
    GEOADD g 1 1 a | GEOSEARCHSTORE g2 g FROMMEMBER a BYRADIUS 1 m | GEORADIUS g 1 1 1 m STORE g3
    GEORADIUSBYMEMBER g a 1 m STORE g4 | GEOSEARCHSTORE g2 nope FROMLONLAT 1 1 BYRADIUS 1 m
    SET a 9 | RENAME a a | RENAME a b | SET a 2 | RENAME a b | RENAMENX b c | RENAMENX c c | SET a 1 | COPY a c
    SET a 8 | COPY a c REPLACE
    RESTORE r 0 PAYLOAD | RESTORE r 10000 PAYLOAD REPLACE | RESTORE r 0 PAYLOAD | RESTORE r 1 PAYLOAD ABSTTL REPLACE
    RESTORE r 1 PAYLOAD ABSTTL | RESTORE r 0 no-payload
    COPY a c DB 1 | COPY a d | MOVE a 1
"""
"""Further commands, some of which the engine does not have yet: their rules are compared by themselves."""

STREAMS: Final = """
XADD x 1-1 f v | XADD x 1-2 f v | XADD x 1-1 f v | XADD x NOMKSTREAM 1-3 f v | XADD none NOMKSTREAM 1-3 f v
XDEL x 1-2 | XDEL x 1-2 | XTRIM x MAXLEN 1 | XTRIM x MAXLEN 1 | XSETID x 9-9
XGROUP CREATE x g 0 | XGROUP CREATE x g 0 | XGROUP SETID x g 1-1 | XGROUP CREATECONSUMER x g c
XGROUP CREATECONSUMER x g c | XGROUP DELCONSUMER x g c | XGROUP DELCONSUMER x g c | XGROUP DESTROY x g
XGROUP DESTROY x g | XGROUP CREATE y g $ MKSTREAM | XTRIM x MAXLEN 0 | RENAME x y | DEL y
XADD x MAXLEN 2 1-1 f v | XADD x MAXLEN 2 1-2 f v | XADD x MAXLEN 2 1-3 f v | XADD x MINID 1-3 1-4 f v
XADD n MAXLEN 0 1-1 f v | XADD x MAXLEN ~ 1 1-5 f v | XGROUP CREATE x g 0 | XGROUP CREATE n g 0
XREADGROUP GROUP g ann COUNT 1 STREAMS x > | XREADGROUP GROUP g ann STREAMS x > | XREADGROUP GROUP g ann STREAMS x 0
XREADGROUP GROUP g bob STREAMS n x > > | XREADGROUP GROUP g cy NOACK STREAMS x n 0 0
XREADGROUP GROUP no cy STREAMS x >
XCLAIM x g bob 0 1-3 | XCLAIM x g dan 0 1-3 | XCLAIM x g eve 0 1-9 | XCLAIM x no eve 0 1-3
XAUTOCLAIM x g bob 0 0 | XAUTOCLAIM x g fay 0 0 | XAUTOCLAIM x g gus 100000 0
"""
