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
        touched, type, value, version;
} KEY;
extern struct subkeys_slots { Py_ssize_t get, changed, fresh, order, prefix; } SUBKEYS;
extern struct tx_slots {
    Py_ssize_t db, keys, touched, ceilings, counts, draws, floors, now_ms, offset, stored_dbs, value_bytes, written_bytes;
} TX;

extern PyTypeObject *key_type, *subkeys_type, *tx_type;
extern PyObject *zero, *empty_bytes; /* kept for ever */
extern PyObject *new_key_model;      /* a key as `Key` makes it */
extern PyObject *codes[6];           /* type codes as objects */
enum { NONE, STRING, HASH, LIST, SET, ZSET }; /* engine/model.py, burned into disk */

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

static inline int is_bytes(PyObject *object) { return object != NULL && PyBytes_CheckExact(object); }
static inline int is_dict(PyObject *object) { return object != NULL && PyDict_CheckExact(object); }
static inline int is_subkeys(PyObject *object)
{
    return object != NULL && Py_TYPE(object) == subkeys_type && is_dict(at(object, SUBKEYS.changed)) &&
           is_bytes(at(object, SUBKEYS.prefix)) && at(object, SUBKEYS.fresh) != NULL && at(object, SUBKEYS.get) != NULL;
}


/* -------------------------------------------------------------------------------------------------- what a machine has */

enum { DO_SET, DO_HSET, DO_INCR, DO_LPUSH, DO_RPUSH, DO_SADD, DO_ZADD, COMMANDS };
/* What a machine has for its whole life. */
typedef struct {
    PyObject_HEAD
    PyObject *tx, *executor;
    PyObject *get_metadata, *load_stored, *prefix_of, *flushed, *large; /* of the overlay; None: Python loads all keys */
    PyObject *ok, *parse_double;
    PyObject *prefix_db, *prefix; /* of database 0, and the number for which it holds */
    int64_t time_max, overlay_bytes_max;
    Py_ssize_t cached_bytes_max, plain_size_max;
} Path;

/* One call of `Machine.apply`. */
typedef struct {
    PyObject_HEAD
    Path *path;
    PyObject *records; /* a tuple */
    PyObject *waiting; /* NULL: nobody waits */
    PyObject *outcomes, *counted;
    Py_ssize_t at, taken, by_command[COMMANDS];
    PyObject *last_offset; /* of the last record that was applied here; NULL: none */
    int64_t clock_ms;
    int moved;  /* the clock, since the executor was told */
    int full;   /* the overlay */
    int failed; /* at the record `at` */
} Run;

/* ------------------------------------------------------------------------------------------------- the parts, by file */

/* decode.c */
PyObject *decode_run(PyObject *module, PyObject *const *given, Py_ssize_t count);

/* writing.c */
void fill_crc16_table(void);
PyObject *pack_metadata_key(PyObject *prefix, PyObject *name);
int code_of(PyObject *key);
int plain_code(PyObject *key);
PyObject *metadata_key(PyObject *module, PyObject *const *given, Py_ssize_t count);
PyObject *write_keys(PyObject *module, PyObject *const *given, Py_ssize_t count);
PyObject *mark_written(PyObject *module, PyObject *const *given, Py_ssize_t count);

/* keys.c */
int add_to(PyObject *object, Py_ssize_t slot, int64_t more);
PyObject *find(Path *path, PyObject *keys, PyObject *name);
int begin(Run *run, PyObject *offset, PyObject *time_ms, int64_t now_ms);
PyObject *get_subkey(PyObject *subkeys, PyObject *subkey);
int init_keys(void);

/* commands.c */
extern PyObject *commands[COMMANDS];
int apply_record(Run *run, PyObject *record);
int init_commands(void);

/* runs.c */
extern PyTypeObject PathType;
int init_runs(void);

#endif
