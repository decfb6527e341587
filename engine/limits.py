"""Every limit that decides how an event is applied, with its unit and its reason.

These are constants on purpose: a configurable bound would let two workers decide differently about the same record.
A change of any of them is a change of behaviour and needs a new rules number (see `engine.apply.machine`).
"""

from __future__ import annotations

from typing import Final

# A watch that is older than this, in log time, counts as lost: what a client that is gone has left behind must end.
WATCH_MS_MAX: Final = 60 * 60 * 1000

# A session that has lost a watch is remembered this long, in log time, unless its EXEC or UNWATCH comes.
WATCH_LOST_MS_MAX: Final = 24 * 60 * 60 * 1000

# Keys that one session may watch: each is held in memory and looked at by its EXEC.
WATCHED_KEYS_MAX: Final = 1024

# Redis' default `proto-max-bulk-len`: the longest string value.
STRING_BYTES_MAX: Final = 512 * 1024 * 1024

# An idempotency key is remembered this long, in log time.
DEDUP_WINDOW_MS: Final = 24 * 60 * 60 * 1000

# A longer reply is not kept beside its idempotency key.
DEDUP_REPLY_BYTES_MAX: Final = 4096

# A batch is written once its overlay holds this much, so that small events which build large values stay bounded.
# Applying is the same whatever the batch, so this one could change without a new rules number.
OVERLAY_BYTES_MAX: Final = 32 * 1024 * 1024

# Once a transaction has written this much in string values, its further commands are refused: BITOP makes 512 MiB of a
# few bytes, and a transaction is one batch, which is held in memory.
EXEC_VALUE_BYTES_MAX: Final = 64 * 1024 * 1024

# Redis' SRANDMEMBER takes any negative count, and its reply any memory; this many are as many as a request's arguments.
DRAWS_MAX: Final = 1_048_576

# What the compressed strings of one RESTORE may hold: a record of 8 MiB could name some 700 MiB, in one batch.
RESTORED_BYTES_MAX: Final = 64 * 1024 * 1024

# A reply, each of its elements counted with 64 bytes beside its own: as much as a server lets wait for one client, and
# a bound for what one read of a huge collection takes of memory. A string value alone may be longer (STRING_BYTES_MAX).
REPLY_BYTES_MAX: Final = 256 * 1024 * 1024

# Measured on RocksDB: one bit of 64 MiB changes in 38 us, and all of them are read in 0.28 s. With 1 KiB reading takes
# 0.45 s; with 16 KiB nothing gets faster, and each bit writes four times the bytes.
FRAGMENT_BYTES: Final = 4096

# Scripts that EVAL has brought and SCRIPT LOAD has not: more of them push out those that came first. Redis 7.4 has the
# same number. A script that is built anew for each call must not fill the state.
EVAL_SCRIPTS_MAX: Final = 500

# Functions of all libraries: as many as nobody writes, and some 5 MB of memory.
FUNCTIONS_MAX: Final = 10_000

# The records of all libraries: all of them are in memory, and FUNCTION LIST shows them in one reply.
LIBRARIES_BYTES_MAX: Final = 64 * 1024 * 1024

# Sources that reads on a server have brought, which are in its memory alone: at most so many, and so many bytes.
READ_SCRIPT_BYTES_MAX: Final = 4 * 1024 * 1024
