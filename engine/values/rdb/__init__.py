"""Redis' RDB encoding of one value, as in DUMP and RESTORE, as functions on bytes.

    [type:1][value][RDB version:2, little-endian][CRC-64 of all before it:8, little-endian]

Sources: rdb.h, rdb.c, listpack.c, ziplist.c, zipmap.c, intset.c and quicklist.c of Valkey 9, rdb.h and rdb.c of Redis
7.4; what valkey-server 9.1 gives and refuses was found by asking it (tests/engine/values/rdb).
"""
