"""A whole slotlog in one process, without real time: `python -m tests.simulation SEED`.

The real consumer, workers and machines run on a simulated event loop against a simulated log, stores and dead-letter
store, while producers send random events and everything else goes wrong that the fault model allows. All of it follows
from the seed.

THE FAULT MODEL
    processes    killed before or after any storage step (a write of a store, a letter stored, a fetch), or stopped and
                 started at any moment, with other batch sizes and caches each time; clients live on
    power        cut with a kill: each partition's store falls back to a prefix of its batches, none of them in part
    stores       a write is refused (StoreBusyError), finds no room, as each one after it until the store is opened
                 again (StoreFullError), fails before it happened or after it happened (unknown to the writer), reads
                 fail, opening fails; what was written is never damaged
    dead letters away for a while; a store that fails may have kept some of the letters
    log          away for a while; fetches give any number of records; offsets have gaps, also at the end; times go back
                 a little and forward a lot, once in a while by years, until an operator sets the clocks back; what
                 was acknowledged is never lost, reordered or changed
    appends      fail with nothing or all appended, unknown to the producer, which sends the event again with the same
                 id; and a client sends an old event again much later
    events       of all types, transactions, scripts and functions (some fail in the midst, or never end), rejections,
                 ticks, flushes; poison of every kind; one that an engine with older rules must stop at, until an
                 operator skips it
    disk         full for a while, in which what waits for room is cleaned or not
    slices       commands are suspended between any two accesses to a store, and go on some time later, or never when
                 the process dies; clients read meanwhile
    cleaning     of any part, at any moment, in slices of any size, or not at all; its writes fail as others do; ticks
                 where nobody writes for a while

WHAT MUST HOLD
    at every write   each dead letter below the written position is stored
    at every read    nothing comes between its slices: a second read right behind it gives the same
    between lives    now and then: contents = the plain model's at the position
    at every stop    its reason is an injected fault
    at the end       position = end of the log; contents = the plain model's (`tests.model`), so nothing is lost and
                     nothing applied twice; dead letters = the poison, byte for byte; indexes and counts fit the keys
                     (`tests.consistency`); a replay from 0 with other batches and without cleaning gives the same
                     digest, and after a full clean of both the same records
"""
