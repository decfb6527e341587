/* Shared by the parts of the hot path in C; __init__.py says what it takes, and what it leaves to Python.
 *
 * It works on the objects of the Python code: keys, their subkeys, the transaction. Their attributes are slots, which are
 * read and written in place, after the type of an object was found to be exactly the one whose slots are known. So both
 * share one state, and either may go on where the other one ends.
 *
 * Rule: a record or key is looked at until all of it is known to be usual, and changed only then. Until then a function
 * may return UNUSUAL, and Python does it from its beginning. What may happen before, Python does in the same way and finds
 * done: a key is loaded, or noted as touched. */

#ifndef SLOTLOG_HOT_H
#define SLOTLOG_HOT_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

enum { FAILED = -1, UNUSUAL = 0, DONE = 1 };

/* ---------------------------------------------------------------------------------------------------- slots and numbers */

/* The offsets of slots, found by `configure`. The order is that of the names in module.c. */
extern struct key_slots {
    Py_ssize_t changed, data, db, expire_ms, head, indexed_expire_ms, metadata_key, name, ranks, scores, size, tail, times,
        touched, type, value, version, weight;
} KEY;
extern struct subkeys_slots { Py_ssize_t get, changed, fresh, kept, order, packed, prefix, whole; } SUBKEYS;
extern struct tx_slots {
    Py_ssize_t db, keys, touched, ceilings, counts, draws, floors, now_ms, offset, stored_dbs, value_bytes, written_bytes;
} TX;

extern struct ranks_slots { Py_ssize_t blocks, groups, holders, scores; } RANKS;
extern struct stretches_slots { Py_ssize_t counts, ends, heads, members, scores, sums, totals; } STRETCHES;
extern struct holders_slots { Py_ssize_t bytes_max, keys, member_bytes, records, refused, scored, scored_max; } HOLDERS;

extern PyTypeObject *key_type, *subkeys_type, *tx_type, *ranks_type, *stretches_type, *holders_type;
extern PyObject *zero, *empty_bytes; /* kept for ever */
extern PyObject *new_key_model;      /* a key as `Key` makes it */
extern PyObject *codes[6];           /* type codes as objects */
enum { NONE, STRING, HASH, LIST, SET, ZSET }; /* engine/model.py, burned into disk */

/* Where a type has the slots of these names, up to NULL; -1: an error. */
int find_slots(PyTypeObject *type, const char *const *names, Py_ssize_t *slots);

static inline PyObject *at(PyObject *object, Py_ssize_t slot) { return *(PyObject **)((char *)object + slot); }

/* Takes over the reference to `value`. */
static inline void put(PyObject *object, Py_ssize_t slot, PyObject *value)
{
    PyObject **place = (PyObject **)((char *)object + slot), *old = *place;
    *place = value;
    Py_XDECREF(old);
}

static inline void put_new(PyObject *object, Py_ssize_t slot, PyObject *value) { put(object, slot, Py_NewRef(value)); }

/* Whether it is an int of 64 bits, and which. */
static inline int as_int64(PyObject *number, int64_t *value)
{
    int overflow;
    if (number == NULL || !PyLong_CheckExact(number)) return 0;
    *value = PyLong_AsLongLongAndOverflow(number, &overflow);
    return !overflow;
}

/* Whether it is an int from 0 to 2^64 - 1, and which. */
static inline int as_uint64(PyObject *number, uint64_t *value)
{
    if (number == NULL || !PyLong_CheckExact(number)) return 0;
    *value = PyLong_AsUnsignedLongLong(number);
    if (*value == (uint64_t)-1 && PyErr_Occurred()) {
        PyErr_Clear(); /* an OverflowError: no other is raised for an int */
        return 0;
    }
    return 1;
}

static inline void pack(char *to, uint64_t value, int bytes)
{
    for (int i = bytes - 1; i >= 0; i--, value >>= 8) to[i] = (char)(value & 0xff);
}

static inline uint64_t parse(const unsigned char *from, int bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++) value = value << 8 | from[i];
    return value;
}

/* As b"%d" % number, of a number of which the sign stands apart. */
static inline PyObject *spelled(uint64_t magnitude, int negative)
{
    char digits[21], *from = digits + sizeof digits;
    do *--from = (char)('0' + magnitude % 10);
    while (magnitude /= 10);
    if (negative) *--from = '-';
    return PyBytes_FromStringAndSize(from, digits + sizeof digits - from);
}

static inline PyObject *spelled_int64(int64_t number)
{
    return spelled(number < 0 ? 0 - (uint64_t)number : (uint64_t)number, number < 0);
}

static inline PyObject *joined(PyObject *first, PyObject *second) /* two bytes objects */
{
    Py_ssize_t size = PyBytes_GET_SIZE(first), more = PyBytes_GET_SIZE(second);
    PyObject *whole = PyBytes_FromStringAndSize(NULL, size + more);
    if (whole == NULL) return NULL;
    memcpy(PyBytes_AS_STRING(whole), PyBytes_AS_STRING(first), size);
    memcpy(PyBytes_AS_STRING(whole) + size, PyBytes_AS_STRING(second), more);
    return whole;
}

/* Has so many bytes fetched into the processor's caches, without waiting for them. */
static inline void fetch_bytes(const void *from, Py_ssize_t bytes)
{
    enum { LINE = 64 };
    for (Py_ssize_t i = 0; i < bytes + LINE - 1; i += LINE) __builtin_prefetch((const char *)from + i);
}

static inline int is_bytes(PyObject *object) { return object != NULL && PyBytes_CheckExact(object); }
static inline int is_dict(PyObject *object) { return object != NULL && PyDict_CheckExact(object); }
static inline int is_subkeys(PyObject *object)
{
    return object != NULL && Py_TYPE(object) == subkeys_type && is_dict(at(object, SUBKEYS.changed)) &&
           is_bytes(at(object, SUBKEYS.prefix)) && at(object, SUBKEYS.fresh) != NULL && at(object, SUBKEYS.get) != NULL;
}

static inline int set_subkey(PyObject *subkeys, PyObject *subkey, PyObject *value)
{
    return PyDict_SetItem(at(subkeys, SUBKEYS.changed), subkey, value);
}

/* Whether a key has a size with which one can reckon, and which. */
static inline int has_size(PyObject *key, int64_t *size)
{
    return as_int64(at(key, KEY.size), size) && *size >= 0 && *size < INT64_MAX / 2;
}

/* -------------------------------------------------------------------------------------------------- what a machine has */

enum { COMMANDS_MAX = 32 };

/* What a machine has for its whole life. */
typedef struct {
    PyObject_HEAD
    PyObject *tx, *executor, *dedup, *new_ids, *get_id;
    PyObject *get_metadata, *load_stored, *prefix_of, *flushed, *large; /* of the overlay; None: Python loads all keys */
    PyObject *listings, *make_listing;
    PyObject *ok, *parse_double;
    PyObject *prefix_db, *prefix; /* of database 0, and the number for which it holds */
    int64_t time_max, overlay_bytes_max, window_ms;
    int64_t block_max, group_max, held_max, scored_max; /* of rank counts */
    Py_ssize_t cached_bytes_max, plain_size_max;
    unsigned int partition, partitions;
} Path;

/* One call of `Machine.apply`. */
typedef struct {
    PyObject_HEAD
    Path *path;
    PyObject *records; /* a tuple */
    PyObject *waiting; /* NULL: nobody waits */
    PyObject *applied, *outcomes, *counted;
    Py_ssize_t at, taken, by_command[COMMANDS_MAX];
    PyObject *last_offset; /* of the last record that was applied here; NULL: none */
    int64_t clock_ms;
    int moved;   /* the clock, since the executor was told */
    int has_ids; /* may be looked up: the clock was never set back */
    int full;    /* the overlay */
    int failed;  /* at the record `at` */
} Run;

/* A command that runs, of a record or of a transaction. */
typedef struct {
    Run *run;
    PyObject *tx, **args, *key; /* `key` is found by `find_key`, which may find a dead one only as UNUSUAL */
    Py_ssize_t count;           /* of arguments */
    int type;                   /* of the key */
} Call;

/* ------------------------------------------------------------------------------------------------- the parts, by file */

/* decode.c */
PyObject *decode_run(PyObject *module, PyObject *const *given, Py_ssize_t count);

/* writing.c */
void fill_crc16_table(void);
unsigned int slot_of(const char *name, Py_ssize_t size);
PyObject *pack_metadata_key(PyObject *prefix, PyObject *name);
int code_of(PyObject *key);
int plain_code(PyObject *key);
PyObject *metadata_key(PyObject *module, PyObject *const *given, Py_ssize_t count);
PyObject *write_keys(PyObject *module, PyObject *const *given, Py_ssize_t count);
PyObject *mark_written(PyObject *module, PyObject *const *given, Py_ssize_t count);

/* packed.c */
enum { KEPT_BYTES_MAX = 128 }; /* of an element and its value that stay in memory: as in engine/batch/overlaid.py */
extern PyTypeObject PackedMemoryType, GetterType;
PyObject *gather(PyObject *module, PyObject *const *given, Py_ssize_t count);
PyObject *bring_in_order(PyObject *module, PyObject *const *given, Py_ssize_t count);
PyObject *put_all(PyObject *module, PyObject *const *given, Py_ssize_t count);
int is_table(PyObject *object);
PyObject *new_packed(PyObject *memory);
PyObject *get_packed(PyObject *packed, PyObject *element); /* a new reference, None: it does not exist; NULL without an error: not held */
int put_packed(PyObject *packed, PyObject *element, PyObject *value);
void discard_packed(PyObject *packed, PyObject *element); /* it does not exist */
enum { AHEAD_MAX = 16 }; /* elements that are fetched together */
/* Fetches some elements, of which nothing is told but how many values of eight bytes were found, and those; NULL: no values. */
int fetch_packed(PyObject *packed, PyObject *const *elements, int count, uint64_t *values);
void set_whole(PyObject *packed, int whole);
int init_packed(void);

/* keys.c */
int add_to(PyObject *object, Py_ssize_t slot, int64_t more);
int find_key(Call *call, PyObject *name);
PyObject *get_subkey(PyObject *subkeys, PyObject *subkey);
int begin(Run *run, PyObject *offset, PyObject *time_ms, int64_t ms);
int open_collection(Call *call, int type);
int grow(PyObject *key, int64_t added);
int delete_key(Call *call);
int init_keys(void);

/* numbers.c */
int parse_int(PyObject *data, int64_t *number);
int parse_score(Path *path, PyObject *text, double *score);
PyObject *pack_score(double score);
double unpack_score(PyObject *packed);

/* commands.c */
typedef struct {
    const char *name;
    Py_ssize_t least, most; /* arguments, which are bytes; the first is the one key */
    int (*run)(Call *call, PyObject **reply); /* `*reply` is NULL before */
    PyObject *bytes; /* the name */
} Command;
extern Command commands[COMMANDS_MAX];
int find_command(PyObject *name, Command **command);
int init_commands(void);

/* strings.c, expiry.c, elements.c, lists.c, zsets.c: what the commands of that name do */
int do_set(Call *call, PyObject **reply);
int do_setex(Call *call, PyObject **reply);
int do_psetex(Call *call, PyObject **reply);
int do_incr(Call *call, PyObject **reply);
int do_incrby(Call *call, PyObject **reply);
int do_decr(Call *call, PyObject **reply);
int do_del(Call *call, PyObject **reply);
int do_expire(Call *call, PyObject **reply);
int do_pexpire(Call *call, PyObject **reply);
int do_expireat(Call *call, PyObject **reply);
int do_pexpireat(Call *call, PyObject **reply);
int do_hset(Call *call, PyObject **reply);
int do_hincrby(Call *call, PyObject **reply);
int do_hdel(Call *call, PyObject **reply);
int do_sadd(Call *call, PyObject **reply);
int do_srem(Call *call, PyObject **reply);
int do_lpush(Call *call, PyObject **reply);
int do_rpush(Call *call, PyObject **reply);
int do_ltrim(Call *call, PyObject **reply);
int do_zadd(Call *call, PyObject **reply);
int do_zincrby(Call *call, PyObject **reply);
int do_zrem(Call *call, PyObject **reply);
int has_hint(PyObject *tx, PyObject *version);
int read_time(PyObject *amount, int64_t unit_ms, int64_t start_ms, int64_t *time_ms);

/* stretches.c */
int has_stretches(PyObject *stretches);
int compare_bytes(PyObject *first, PyObject *second);
Py_ssize_t find_stretch(PyObject *stretches, PyObject *score_key);
int add_before(PyObject *stretches, Py_ssize_t place, int64_t *sum);
Py_ssize_t locate(PyObject *stretches, int64_t *rank);
void set_stretch(PyObject *stretches, Py_ssize_t place, PyObject *number);

/* ranks.c */
int is_ranked(PyObject *key);
int move_ranked(Call *call, PyObject *member, PyObject *old, PyObject *score);
int is_total(PyObject *ranks, uint64_t size);
int may_hold(Path *path, PyObject *ranks);
int find_place(PyObject *ranks, PyObject *score_key, int is_there, int64_t *rank);
int find_rank(PyObject *ranks, int64_t rank, PyObject **start, int64_t *skipped);
typedef struct {
    PyObject *blocks;        /* of its group, borrowed */
    Py_ssize_t group, block; /* their places */
    const uint64_t *scores;  /* of its members */
    Py_ssize_t count;
} Block;
int find_members(PyObject *key, int64_t *rank, Block *found);
int find_members_by(PyObject *key, PyObject *bound, int64_t *number, Block *found);
int next_members(PyObject *key, Block *found);

/* members.c */
int may_read_stored(PyObject *key); /* what is stored of a sorted set's order is what holds */
PyObject *stored_keys(PyObject *key, PyObject *start, PyObject *end, Py_ssize_t most); /* of its order, with their prefix: a list */
int has_members(PyObject *key, PyObject *start, PyObject *blocks, Py_ssize_t block, Py_ssize_t count);
void fetch_members(PyObject *blocks, Py_ssize_t block);
const unsigned char *held_member(PyObject *blocks, Py_ssize_t block, Py_ssize_t number); /* its size and itself */
int move_in_members(PyObject *holders, PyObject *blocks, Py_ssize_t block, PyObject *score_key, int change, const uint64_t *scores,
    Py_ssize_t lower, Py_ssize_t count);

/* ids.c */
enum { NEW = 2, SEEN = 3 };
int look_up_id(Run *run, PyObject *event_id, PyObject **reply);
int remember_id(Run *run, PyObject *event_id, PyObject *offset, PyObject *reply);
int note_new_id(Run *run, PyObject *offset);
int init_ids(void);

/* records.c */
int apply_record(Run *run, PyObject *record);
int init_records(void);

/* runs.c */
extern PyTypeObject PathType;
int tell(Run *run);
int init_runs(void);

#endif
