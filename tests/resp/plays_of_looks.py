"""Plays about what the server tells of commands: SLOWLOG, and what COMMAND says of keys. See `plays`."""

from __future__ import annotations

from typing import Final

_LONG: Final = "a" * 155
_MANY: Final = " ".join(map(str, range(1_000_000, 1_000_038)))

SLOW_DATA: Final = """
    a: CONFIG SET slowlog-log-slower-than 0
    a: SLOWLOG RESET
    a: FLUSHALL
    a: sEt k v
    a: gEt k
    a: object encoding k
    a: rpush l 1
    a: bLpop l 0
    a: bLpop l 0.01
    a: mUlti
    a: iNcr n
    a: eCho x
    a: eXec
    a: SLOWLOG GET 20
    a: CONFIG SET slowlog-log-slower-than 10000
"""
"""Each command as it was sent, blocking ones too; an EXEC is none, its commands are."""

MONITORED: Final = """
    a: PING
    b: PING
    m: MONITOR
    a: SET k v
    a: MULTI
    a: SET k 2
    a: SELECT 1
    a: ECHO x
    a: CONFIG GET save
    a: EXEC
    a: SELECT 0
    a: MULTI
    a: SET k 3
    a: DISCARD
    a: MULTI
    a: SET k
    a: EXEC
    a: WATCH k
    b: SET k 4
    a: MULTI
    a: GET k
    a: EXEC
    a: WATCH k
    a: MULTI
    a: GET k
    a: eXec
    a: EXEC
    m: PING
    m: RESET
    a: RESET
    a: PING
    m: PING
"""
"""What a MULTI queues is shown when it runs, if it does; a client's own commands behind their replies."""

KEYS_AND_FLAGS: Final = """
    a: COMMAND GETKEYSANDFLAGS set k v
    a: COMMAND GETKEYSANDFLAGS set k v get
    a: COMMAND GETKEYSANDFLAGS set k get
    a: COMMAND GETKEYSANDFLAGS set k v ex 10 GET
    a: COMMAND GETKEYSANDFLAGS bitfield k get u8 0
    a: COMMAND GETKEYSANDFLAGS bitfield k get u8 0 set u8 0 1
    a: COMMAND GETKEYSANDFLAGS bitfield k incrby u8 0 1
    a: COMMAND GETKEYSANDFLAGS bitfield k overflow sat get u8 0
    a: COMMAND GETKEYSANDFLAGS sort k store v
    a: COMMAND GETKEYSANDFLAGS georadius k 1 1 1 km store v
    a: COMMAND GETKEYSANDFLAGS lmove a b left right
    a: COMMAND GETKEYSANDFLAGS mset a 1 b 2
    a: COMMAND GETKEYSANDFLAGS zinterstore z 2 a b
    a: COMMAND GETKEYSANDFLAGS zinterstore zz 1443677133621497600 x
    a: COMMAND GETKEYSANDFLAGS memory usage k
    a: COMMAND GETKEYSANDFLAGS copy a b
    a: COMMAND GETKEYSANDFLAGS getdel a
    a: COMMAND GETKEYSANDFLAGS ping
    a: COMMAND GETKEYSANDFLAGS get
    a: COMMAND GETKEYSANDFLAGS nosuch a
    a: COMMAND GETKEYSANDFLAGS spublish c m
    a: COMMAND GETKEYS spublish c m
"""

SLOWLOG: Final = f"""
    a: CLIENT SETNAME n1
    a: CONFIG SET slowlog-log-slower-than 0
    a: SLOWLOG RESET
    a: ECHO {_LONG}
    a: CLIENT LIST ID {_MANY}
    a: ACL SETUSER bob >pass
    a: CONFIG SET requirepass ''
    a: nosuch x
    a: ECHO
    a: SLOWLOG GET
    a: SLOWLOG GET 2
    a: SLOWLOG GET 0
    a: SLOWLOG GET -2
    a: SLOWLOG GET x
    a: SLOWLOG GET 1 2
    a: SLOWLOG LEN
    a: SLOWLOG LEN 1
    a: SLOWLOG FOO
    a: SLOWLOG
    a: CONFIG SET slowlog-max-len 3
    a: SLOWLOG GET -1
    a: CONFIG SET slowlog-max-len 0
    a: PING
    a: SLOWLOG LEN
    a: CONFIG SET slowlog-max-len 5
    a: PING
    a: PING
    a: SLOWLOG GET -1
    a: CONFIG SET slowlog-log-slower-than -1
    a: PING
    a: SLOWLOG LEN
    a: SLOWLOG RESET
    a: SLOWLOG LEN
    a: CONFIG SET slowlog-log-slower-than 10000 slowlog-max-len 128
    a: ACL DELUSER bob
"""
