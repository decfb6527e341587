/* The functions of the module that serve the RESP server and the embedded log. */

#include "requests.h"

#define FAST(function) (PyCFunction)(void (*)(void))function, METH_FASTCALL

PyMethodDef request_functions[] = {
    {"answer_writes", FAST(answer_writes),
     "answer_writes(replies, at, ok, encode2, encode3, ready, large): fill the places of the writes of one plan.\n\n"
     "Their sessions are told, and added to `ready`. Returns where it has stopped: at a pair that is Python's, or the end."},
    {"configure_clients", configure_clients, METH_VARARGS,
     "configure_clients(session, output, inbox, parser, window, stats, distribution, accounting, plan, answers, outbox): learn where\n"
     "the types of these have their slots."},
    {"configure_items", configure_items, METH_VARARGS,
     "configure_items(item, entry, item_bytes, record_bytes_max, arguments_max): learn what items are made of."},
    {"pack_listing", FAST(pack_listing),
     "pack_listing(records, skip, with_subkeys, with_values, most): a listing, as engine/batch/in_memory/listings.py says it.\n\n"
     "Of pairs of key and value; `skip` bytes of each key are not shown. None: it would have more than `most` bytes."},
    {"parse_commands", FAST(parse_commands),
     "parse_commands(data, commands, count_max): add the commands at the beginning of `data`, and return where they end."},
    {"read_run", FAST(read_run),
     "read_run(served, kind, commands, at, wall_ms, is_resp3, parts): answer reads of a kind of keys that are in memory.\n\n"
     "Those that follow each other by the name of the first, 64 at most. `served` has of each partition None or its\n"
     "`resp.clients.served.Served`. Returns where it has stopped, how many of them found their key, and how many bytes were\n"
     "added to `parts`."},
    {"records_of", FAST(records_of),
     "records_of(items, positions): the records of items, which learn their offsets. None: not all of them are usual."},
    {"rows_of", FAST(rows_of),
     "rows_of(entries, partition, begin, time_ms, link, position_type): rows of the embedded log, for the server's writes.\n\n"
     "Returns all their fields in one list, their positions, and the last one's link. None: not all of them are usual."},
    {"take_data", FAST(take_data),
     "take_data(data, plain_writes, session, count_max, most, served): items of the writes with which `data` begins.\n\n"
     "Up to a command that is Python's, or whose partition is not served. Returns the items, where they end, and how many bytes they have."},
    {"take_filled", FAST(take_filled),
     "take_filled(places, parts): move the replies that are there to `parts`; returns how many bytes they have."},
    {"take_writes", FAST(take_writes),
     "take_writes(commands, at, end, session, plan, name, head, first, least, most, free_bytes, partition, partitions): items\n"
     "of writes.\n\n"
     "Of those that follow each other by the name of the first, up to one that is Python's or in another partition. Returns\n"
     "the items, and what is left of `free_bytes`."},
    {NULL},
};
