"""The bounds of an event, which a client holds before it sends and the engine when it applies.

They are constants on purpose: a configurable bound would let two workers decide differently about the same record.
A change of any of them is a change of behaviour and needs a new rules number (see `engine.apply.machine`).
"""

from __future__ import annotations

from typing import Final

# One Kafka record, key and framing aside. Topics allow 9 MiB, so the record and its headers always fit.
RECORD_BYTES_MAX: Final = 8 * 1024 * 1024

# The map itself, `args`, and one command inside an EXEC: an event never needs more.
NESTING_MAX: Final = 3

# Redis' own bound on the arguments of one multi-bulk request.
ARGUMENTS_MAX: Final = 1_048_576

# Long enough for a UUID in text or a ULID with a prefix.
ID_BYTES_MAX: Final = 64

# A WATCH session names a connection; 16 bytes are a UUID.
SESSION_BYTES: Final = 16

# A version keeps the clock as 53 bits of microseconds (engine/FORMAT.md, "Type codes").
TIME_MS_MAX: Final = 9_007_199_254_740

# Logical databases, as Redis' default `databases 16`.
DATABASES: Final = 16

# As in Redis Cluster.
SLOTS: Final = 16384
