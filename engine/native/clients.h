/* What the parts in C know of a server's clients: where the types of Python have their slots, and how these are counted up. */

#ifndef SLOTLOG_CLIENTS_H
#define SLOTLOG_CLIENTS_H

#include "requests.h"

extern struct session_slots {
    Py_ssize_t ending, finished, closing, db, encode, inbox, last_active, last_command, output, parser, plain, query_bytes,
        received_bytes, received_commands;
} SESSION;
extern struct output_slots {
    Py_ssize_t transport, parts, pending_replies, pending_reply_bytes, pushes, sent_bytes, waiting_since, window;
} OUTPUT;
extern struct inbox_slots { Py_ssize_t backlog, fiber; } INBOX;
extern struct parser_slots { Py_ssize_t authenticated, is_between; } PARSER;
extern struct window_slots { Py_ssize_t commands; } WINDOW;
extern struct stats_slots {
    Py_ssize_t keyspace_hits, keyspace_misses, net_input_bytes, net_output_bytes, reads_processed, request_seconds,
        write_seconds, writes_processed;
} STATS;
extern struct distribution_slots { Py_ssize_t bounds, counts, sum; } DISTRIBUTION;
extern struct accounting_slots { Py_ssize_t slow_seconds, tracks_latencies; } ACCOUNTING;
extern struct plan_slots { Py_ssize_t calls, calls_by_digits, counted, name, run_kind, seconds; } PLAN;
extern struct answers_slots { Py_ssize_t pending_bytes, pending_events; } ANSWERS;
extern struct outbox_slots { Py_ssize_t items, scheduled; } OUTBOX;

/* The types, in the order in which `configure_clients` is told of them. */
enum { SESSIONS, OUTPUTS, INBOXES, PARSERS, WINDOWS, STATISTICS, DISTRIBUTIONS, ACCOUNTS, PLANS, ANSWERED, OUTBOXES, CLIENT_TYPES };
extern PyTypeObject *client_types[CLIENT_TYPES];

static inline int is_type(PyObject *object, int type) { return object != NULL && Py_TYPE(object) == client_types[type]; }

/* FAILED, with an error, where what is there is no number of 64 bits, no float, no list of such numbers, or no `Distribution`. */
int add(PyObject *object, Py_ssize_t slot, int64_t more);
int set_seconds(PyObject *object, Py_ssize_t slot, double seconds);
int add_seconds(PyObject *object, Py_ssize_t slot, double more);
int count_at(PyObject *counts, Py_ssize_t index, Py_ssize_t more);
int distribute(PyObject *distribution, double seconds, Py_ssize_t count);

#endif
