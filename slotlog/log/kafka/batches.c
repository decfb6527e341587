/* The module `slotlog.log.kafka._batches`: takes the records out of record batches of Kafka (magic 2); see batches.py.
 *
 *     base offset 8, length 4 (of what follows it), leader epoch 4, magic 1, CRC-32C 4 (of what follows it), attributes 2,
 *     last offset delta 4, first time 8, latest time 8, producer 8, its epoch 2, first sequence 4, count of records 4, records
 *
 *     a record: length, attributes 1, time delta, offset delta, key, value, count of headers, name and content of each
 *
 * Numbers of a batch are big-endian, those of a record varints in zigzag. A key, value or content has its size before it,
 * -1: it is none. Whatever else there is, a damaged batch included, is left to aiokafka, from the batch's beginning on. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

enum {
    MAGIC_AT = 16, CRC_AT = 17, ATTRIBUTES_AT = 21, LAST_AT = 23, FIRST_TIME_AT = 27, LATEST_TIME_AT = 35, COUNT_AT = 57,
    RECORDS_AT = 61,
    LENGTH_FROM = 12,
    MAGIC = 2,
    IS_LOG_TIME = 0x08,
    UNPACKED_BITS = 0x17, /* the codec, and whether it is of a transaction: what a caller has seen to */
    RECORD_BYTES_MIN = 7,
};

enum { FAILED = -1, UNUSUAL = 0, DONE = 1 };

typedef struct {
    const unsigned char *from, *end;
} Rest;

static int64_t number(const unsigned char *from, int bytes)
{
    uint64_t value = from[0] & 0x80 ? UINT64_MAX : 0;
    for (int i = 0; i < bytes; i++) value = value << 8 | from[i];
    return (int64_t)value;
}

/* Reads a varint. Whether there is one. */
static inline int read_number(Rest *rest, int64_t *value)
{
    uint64_t found = 0;
    for (int shift = 0; shift < 64 && rest->from < rest->end; shift += 7) {
        unsigned char byte = *rest->from++;
        found |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *value = (int64_t)(found >> 1) ^ -(int64_t)(found & 1);
            return 1;
        }
    }
    return 0;
}

/* Reads bytes with their size before them; `*size` -1: none. Whether they are there. */
static inline int read_span(Rest *rest, const unsigned char **from, int64_t *size)
{
    if (!read_number(rest, size) || *size < -1 || *size > rest->end - rest->from) return 0;
    *from = rest->from;
    if (*size > 0) rest->from += *size;
    return 1;
}

static inline PyObject *bytes_or_none(const unsigned char *from, int64_t size)
{
    return size < 0 ? Py_NewRef(Py_None) : PyBytes_FromStringAndSize((const char *)from, (Py_ssize_t)size);
}

/* Reads the headers of a record as a tuple of pairs. NULL without an error: they are unusual. */
static PyObject *read_headers(Rest *rest, int64_t count)
{
    if (count > rest->end - rest->from) return NULL;
    PyObject *headers = PyTuple_New((Py_ssize_t)count);
    for (Py_ssize_t i = 0; headers != NULL && i < count; i++) {
        const unsigned char *name, *content;
        int64_t name_size, size;
        PyObject *pair = NULL;
        if (read_span(rest, &name, &name_size) && name_size >= 0 && read_span(rest, &content, &size)) {
            PyObject *text = PyUnicode_DecodeUTF8((const char *)name, (Py_ssize_t)name_size, NULL);
            PyObject *bytes = text == NULL ? NULL : bytes_or_none(content, size);
            if (bytes != NULL) pair = PyTuple_Pack(2, text, bytes);
            else if (PyErr_ExceptionMatches(PyExc_UnicodeDecodeError)) PyErr_Clear();
            Py_XDECREF(text);
            Py_XDECREF(bytes);
        }
        if (pair == NULL) Py_CLEAR(headers);
        else PyTuple_SET_ITEM(headers, i, pair);
    }
    return headers;
}

/* What a batch says of all its records. */
typedef struct {
    int64_t base_offset, first_ms, latest_ms, from_offset;
    int is_log_time;
    PyObject *records, *headers; /* lists to be added to */
    int64_t last_ms;
    PyObject *last_time; /* of the record before: that of many has the same; NULL: there was none */
} Batch;

static int append(PyObject *list, PyObject *item) /* takes over the reference to `item`, which may be NULL */
{
    int failed = item == NULL || PyList_Append(list, item) < 0;
    Py_XDECREF(item);
    return failed ? FAILED : DONE;
}

/* A new reference. */
static PyObject *time_of(Batch *batch, int64_t time_ms)
{
    if (batch->last_time == NULL || batch->last_ms != time_ms) {
        Py_XSETREF(batch->last_time, PyLong_FromLongLong(time_ms));
        batch->last_ms = time_ms;
    }
    return Py_XNewRef(batch->last_time);
}

/* (offset, time_ms, key, value); takes over the references to what it is given. */
static PyObject *record_of(int64_t offset, PyObject *time_ms, PyObject *key, PyObject *value)
{
    PyObject *items[] = {PyLong_FromLongLong(offset), time_ms, key, value}, *record = NULL;
    if (items[0] != NULL && time_ms != NULL && key != NULL && value != NULL) record = PyTuple_New(4);
    for (int i = 0; i < 4; i++)
        if (record != NULL) PyTuple_SET_ITEM(record, i, items[i]);
        else Py_XDECREF(items[i]);
    return record;
}

/* Reads a record, and keeps it when it stands at `from_offset` or behind. */
static int read_record(Batch *batch, Rest *rest)
{
    int64_t length, time_delta, offset_delta, key_size, value_size, count;
    const unsigned char *key, *value;
    if (!read_number(rest, &length) || length < RECORD_BYTES_MIN - 1 || length > rest->end - rest->from) return UNUSUAL;
    if (*rest->from & 0x80) return UNUSUAL; /* attributes, which Kafka does not use */
    Rest own = {rest->from + 1, rest->from + length};
    rest->from = own.end;
    int64_t offset, time_ms = batch->latest_ms;
    if (!read_number(&own, &time_delta) || !read_number(&own, &offset_delta) || !read_span(&own, &key, &key_size) ||
        !read_span(&own, &value, &value_size) || !read_number(&own, &count) || count < 0 ||
        __builtin_add_overflow(batch->base_offset, offset_delta, &offset) ||
        (!batch->is_log_time && __builtin_add_overflow(batch->first_ms, time_delta, &time_ms)))
        return UNUSUAL;
    PyObject *headers = count ? read_headers(&own, count) : NULL;
    if ((count && headers == NULL) || own.from != own.end) {
        Py_XDECREF(headers);
        return PyErr_Occurred() ? FAILED : UNUSUAL;
    }
    if (offset < batch->from_offset) {
        Py_XDECREF(headers);
        return DONE;
    }
    if (headers != NULL && append(batch->headers, Py_BuildValue("LN", (long long)offset, headers)) == FAILED) return FAILED;
    PyObject *found[] = {bytes_or_none(key, key_size), bytes_or_none(value, value_size)};
    return append(batch->records, record_of(offset, time_of(batch, time_ms), found[0], found[1]));
}

static int forget_from(PyObject *list, Py_ssize_t size) { return PyList_SetSlice(list, size, PyList_GET_SIZE(list), NULL); }

/* Reads the records of a batch; if not all of them are usual, none is kept. */
static int read_records(Batch *batch, Rest *rest, int64_t count)
{
    Py_ssize_t records = PyList_GET_SIZE(batch->records), headers = PyList_GET_SIZE(batch->headers);
    int done = count < 0 || count > (rest->end - rest->from) / RECORD_BYTES_MIN ? UNUSUAL : DONE;
    for (int64_t i = 0; done == DONE && i < count; i++) done = read_record(batch, rest);
    if (done == DONE && rest->from != rest->end) done = UNUSUAL;
    if (done == UNUSUAL && (forget_from(batch->records, records) < 0 || forget_from(batch->headers, headers) < 0)) return FAILED;
    return done;
}

/* Whether the CRC is right that stands before these bytes. */
static int has_crc(PyObject *crc_of, const unsigned char *from, const unsigned char *end)
{
    PyObject *view = PyMemoryView_FromMemory((char *)from, end - from, PyBUF_READ);
    PyObject *found = view == NULL ? NULL : PyObject_CallOneArg(crc_of, view);
    Py_XDECREF(view);
    if (found == NULL) return FAILED;
    unsigned long crc = PyLong_AsUnsignedLongMask(found);
    Py_DECREF(found);
    return PyErr_Occurred() ? FAILED : crc == (unsigned long)(number(from - 4, 4) & 0xffffffff) ? DONE : UNUSUAL;
}

/* Reads the batch at the beginning of `rest`, behind which it moves; `crc_of` NULL: it is the only one, and a caller has seen
 * to its CRC, codec and transaction. */
static int read_batch(Batch *batch, Rest *rest, PyObject *crc_of, int64_t *next_offset)
{
    const unsigned char *at = rest->from;
    if (rest->end - at < RECORDS_AT || at[MAGIC_AT] != MAGIC) return UNUSUAL;
    int64_t length = crc_of == NULL ? rest->end - at - LENGTH_FROM : number(at + LENGTH_FROM - 4, 4);
    if (length < RECORDS_AT - LENGTH_FROM || length > rest->end - at - LENGTH_FROM) return UNUSUAL;
    int attributes = (int)number(at + ATTRIBUTES_AT, 2);
    if (attributes & ~(IS_LOG_TIME | (crc_of == NULL ? UNPACKED_BITS : 0))) return UNUSUAL;
    Rest own = {at + RECORDS_AT, at + LENGTH_FROM + length};
    int done = crc_of == NULL ? DONE : has_crc(crc_of, at + ATTRIBUTES_AT, own.end);
    if (done != DONE) return done;
    batch->base_offset = number(at, 8);
    batch->first_ms = number(at + FIRST_TIME_AT, 8);
    batch->latest_ms = number(at + LATEST_TIME_AT, 8);
    batch->is_log_time = attributes & IS_LOG_TIME;
    int64_t next;
    if (__builtin_add_overflow(batch->base_offset, number(at + LAST_AT, 4) + 1, &next)) return UNUSUAL;
    done = read_records(batch, &own, number(at + COUNT_AT, 4));
    if (done != DONE) return done;
    rest->from = own.end;
    *next_offset = next;
    return DONE;
}

PyDoc_STRVAR(take_doc, "take(fetched, at, from_offset, most, crc_of): records, headers, where it has stopped, the offset to go on at.\n\n"
"The plain batches of `fetched` from `at` on, whole ones, until there are `most` records; it stops at what is no plain one.\n"
"Records before `from_offset` are left out. Headers are pairs of an offset and what `slotlog.log.Headers` says. `crc_of` None:\n"
"one batch, unpacked behind its header, whose CRC, codec and transaction somebody has seen to.");

static PyObject *take(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    if (count != 5 || !PyBytes_CheckExact(given[0])) {
        PyErr_SetString(PyExc_TypeError, "take(fetched: bytes, at, from_offset, most, crc_of)");
        return NULL;
    }
    Py_ssize_t size = PyBytes_GET_SIZE(given[0]), at = PyLong_AsSsize_t(given[1]), most = PyLong_AsSsize_t(given[3]);
    long long next_offset = PyLong_AsLongLong(given[2]);
    if (PyErr_Occurred()) return NULL;
    if (at < 0 || at > size) {
        PyErr_SetString(PyExc_ValueError, "it begins outside of what was fetched");
        return NULL;
    }
    const unsigned char *data = (const unsigned char *)PyBytes_AS_STRING(given[0]);
    Rest rest = {data + at, data + size};
    Batch batch = {.from_offset = next_offset, .records = PyList_New(0), .headers = PyList_New(0)};
    PyObject *crc_of = given[4] == Py_None ? NULL : given[4];
    int done = batch.records != NULL && batch.headers != NULL ? DONE : FAILED;
    while (done == DONE && rest.from < rest.end && PyList_GET_SIZE(batch.records) < most) {
        int64_t next;
        done = read_batch(&batch, &rest, crc_of, &next);
        if (done == DONE) batch.from_offset = next_offset = next;  /* no record of the next one may stand before that */
    }
    PyObject *result = NULL;
    if (done != FAILED)
        result = Py_BuildValue("OOnL", batch.records, batch.headers, (Py_ssize_t)(rest.from - data), next_offset);
    Py_XDECREF(batch.records);
    Py_XDECREF(batch.headers);
    Py_XDECREF(batch.last_time);
    return result;
}

static PyMethodDef functions[] = {
    {"take", (PyCFunction)(void (*)(void))take, METH_FASTCALL, take_doc},
    {NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "slotlog.log.kafka._batches", "Takes records out of record batches; see batches.py.", -1, functions,
};

/* What Python and C agree on: see INTERFACE in batches.py. */
#define INTERFACE 1

PyMODINIT_FUNC PyInit__batches(void)
{
    PyObject *module = PyModule_Create(&definition);
    if (module != NULL && PyModule_AddIntMacro(module, INTERFACE) < 0) Py_CLEAR(module);
    return module;
}
