/* Shared by the parts of a client's way through the RESP server in C: its commands, the items that they become, the rows of
 * the log, and its replies. __init__.py says which code in Python each of them stands for. */

#ifndef SLOTLOG_REQUESTS_H
#define SLOTLOG_REQUESTS_H

#include "hot.h"

/* requests.c */
const char *read_command(const char *from, const char *end, Py_ssize_t count_max, PyObject **name, PyObject **command);
PyObject *parse_commands(PyObject *module, PyObject *const *given, Py_ssize_t count);

/* items.c */
PyObject *configure_items(PyObject *module, PyObject *args);
PyObject *take_writes(PyObject *module, PyObject *const *given, Py_ssize_t count);
PyObject *take_data(PyObject *module, PyObject *const *given, Py_ssize_t count);
PyObject *records_of(PyObject *module, PyObject *const *given, Py_ssize_t count);

/* answers.c */
PyObject *answer_writes(PyObject *module, PyObject *const *given, Py_ssize_t count);
PyObject *take_filled(PyObject *module, PyObject *const *given, Py_ssize_t count);
PyObject *read_run(PyObject *module, PyObject *const *given, Py_ssize_t count);

/* reads.c */
enum { READS_GET, READS_HGET, READS_ZRANK, READS_ZCOUNT, READS_ZRANGE, READS_ZRANGEBYSCORE, READS_HGETALL, READS_HKEYS,
    READS_HVALS, READS_LRANGE, READS_SMEMBERS, READS_SINTER, READS_END }; /* as READS */
/* The partitions of a server, each None or as `resp.clients.served.Served` has it. */
enum { SERVED_MACHINE, SERVED_PATH, SERVED_PIPELINE, SERVED_OUTBOX, SERVED_ANSWERS, SERVED_FIELDS };

/* The partition of a key's slot: as `partition_of` in slotlog/shared/slots.py. */
static inline Py_ssize_t partition_of(unsigned int slot, Py_ssize_t partitions) { return (Py_ssize_t)slot * partitions / 16384; }

/* What of a partition is served, borrowed; NULL: nothing, or it is no such tuple. */
static inline PyObject *served_at(PyObject *served, Py_ssize_t partition)
{
    PyObject *one = partition < PyTuple_GET_SIZE(served) ? PyTuple_GET_ITEM(served, partition) : NULL;
    return one != NULL && PyTuple_Check(one) && PyTuple_GET_SIZE(one) == SERVED_FIELDS ? one : NULL;
}

/* Replies as they come up, and the partition at hand. */
typedef struct {
    PyObject *served, *wall, *null;
    Py_ssize_t partition; /* -1: none yet */
    Path *path;
    PyObject *keys;
    int64_t latest_ms;
    char *data;
    Py_ssize_t size, room, hits;
} Reader;
int go_to(Reader *reader, PyObject *key); /* UNUSUAL: its partition is not served, or was left in the middle of a command */
char *reserve(Reader *reader, Py_ssize_t more);
int add_number(Reader *reader, char kind, int64_t number);
PyObject *key_of(Reader *reader, PyObject *name);

PyObject *read_elements(Reader *reader, int kind, PyObject *commands, Py_ssize_t from, PyObject *parts);

/* ahead.c */
void look_ahead(Reader *reader, int kind, PyObject *commands, Py_ssize_t from);

/* listings.c */
int answer_whole(Reader *reader, int kind, PyObject *command, PyObject *key);
PyObject *pack_listing(PyObject *module, PyObject *const *given, Py_ssize_t count);

/* rows.c */
PyObject *rows_of(PyObject *module, PyObject *const *given, Py_ssize_t count);

extern struct item_slots {
    Py_ssize_t muted, args, command, data, db, entry, event_id, name, offset, plan, session, size, spec, watch_id;
} ITEM;
extern PyTypeObject *item_type; /* NULL until `configure_items` was called */

/* How many bytes msgpack's header takes of a string of bytes, and the header itself. */
static inline int bin_header(char *to, Py_ssize_t size)
{
    int bytes = size < 256 ? 1 : size < 65536 ? 2 : 4;
    if (to != NULL) {
        *to = (char)(bytes == 1 ? 0xc4 : bytes == 2 ? 0xc5 : 0xc6);
        pack(to + 1, (uint64_t)size, bytes);
    }
    return 1 + bytes;
}

/* A bulk string, as a reply has it; returns how many bytes it takes, and only that without `to`. */
static inline Py_ssize_t write_bulk(char *to, const char *text, Py_ssize_t size)
{
    char digits[20];
    Py_ssize_t left = size;
    int count = 0;
    do digits[count++] = (char)('0' + left % 10);
    while (left /= 10);
    if (to != NULL) {
        *to++ = '$';
        for (int i = count; i-- > 0;) *to++ = digits[i];
        *to++ = '\r';
        *to++ = '\n';
        memcpy(to, text, size);
        to[size] = '\r';
        to[size + 1] = '\n';
    }
    return 1 + count + 2 + size + 2;
}

/* clients.c */
PyObject *configure_clients(PyObject *module, PyObject *args);

/* turns.c */
extern PyTypeObject ClientPathType;
int init_turns(void);

/* request_functions.c */
extern PyMethodDef request_functions[];
int init_requests(void);

#endif
