/* Idempotency keys: twin of engine/tables/dedup.py, for a partition whose clock was never set back. */

#include "hot.h"

enum { BUCKET_BYTES = 4, HEADER_BYTES = 17 };

static PyObject *name_judge, *name_remember, *name_new_at;

int init_ids(void)
{
    name_judge = PyUnicode_InternFromString("judge");
    name_remember = PyUnicode_InternFromString("remember");
    name_new_at = PyUnicode_InternFromString("new_at");
    return name_judge == NULL || name_remember == NULL || name_new_at == NULL ? FAILED : DONE;
}

static PyObject *id_key(int64_t bucket, PyObject *event_id)
{
    PyObject *key = PyBytes_FromStringAndSize(NULL, BUCKET_BYTES + PyBytes_GET_SIZE(event_id));
    if (key == NULL) return NULL;
    pack(PyBytes_AS_STRING(key), (uint64_t)bucket, BUCKET_BYTES);
    memcpy(PyBytes_AS_STRING(key) + BUCKET_BYTES, PyBytes_AS_STRING(event_id), PyBytes_GET_SIZE(event_id));
    return key;
}

/* What is kept of an id in a bucket, None if nothing. */
static PyObject *get_record(Path *path, int64_t bucket, PyObject *event_id)
{
    PyObject *key = id_key(bucket, event_id);
    if (key == NULL) return NULL;
    PyObject *record = Py_XNewRef(PyDict_GetItemWithError(path->new_ids, key));
    if (record == NULL && !PyErr_Occurred()) record = PyObject_CallOneArg(path->get_id, key);
    Py_DECREF(key);
    return record;
}

/* As `Deduplicator.outcome`: NEW, or SEEN with the reply that was given first. */
int look_up_id(Run *run, PyObject *event_id, PyObject **reply)
{
    Path *path = run->path;
    int64_t bucket = run->clock_ms / path->window_ms;
    for (int64_t each = bucket; each >= 0 && each >= bucket - 1; each--) {
        PyObject *record = get_record(path, each, event_id);
        if (record == NULL) return FAILED;
        if (record != Py_None) {
            PyObject *now = at(path->tx, TX.now_ms);
            PyObject *first = PyObject_CallMethodObjArgs(path->dedup, name_judge, record, now, NULL);
            Py_DECREF(record);
            if (first == NULL) return FAILED;
            if (PyTuple_CheckExact(first) && PyTuple_GET_SIZE(first) == 1) {
                *reply = Py_NewRef(PyTuple_GET_ITEM(first, 0));
                Py_DECREF(first);
                return SEEN;
            }
            Py_DECREF(first);
        }
        else Py_DECREF(record);
    }
    return NEW;
}

/* Lets Python know, which is to apply this record, that its id is new. */
int note_new_id(Run *run, PyObject *offset)
{
    return PyObject_SetAttr(run->path->dedup, name_new_at, offset) < 0 ? FAILED : DONE;
}

/* Packs a reply behind `to`, as `replies.pack`. Returns the end; NULL: it is no integer, OK or list of these, or too long. */
static char *pack_reply(Path *path, PyObject *reply, char *to, const char *end)
{
    int64_t number;
    if (end - to < 5 + 20) return NULL;
    if (reply == path->ok) {
        memcpy(to, "+\0\0\0\2OK", 7);
        return to + 7;
    }
    if (PyList_CheckExact(reply)) {
        *to = '*';
        pack(to + 1, (uint64_t)PyList_GET_SIZE(reply), 4);
        to += 5;
        for (Py_ssize_t i = 0; to != NULL && i < PyList_GET_SIZE(reply); i++) {
            PyObject *each = PyList_GET_ITEM(reply, i);
            to = PyList_CheckExact(each) ? NULL : pack_reply(path, each, to, end);
        }
        return to;
    }
    if (!as_int64(reply, &number)) return NULL;
    char digits[20], *from = digits + sizeof digits;
    uint64_t left = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    do *--from = (char)('0' + left % 10);
    while (left /= 10);
    if (number < 0) *--from = '-';
    size_t size = (size_t)(digits + sizeof digits - from);
    *to = ':';
    pack(to + 1, size, 4);
    memcpy(to + 5, from, size);
    return to + 5 + size;
}

static int remember_in_python(Run *run, PyObject *event_id, PyObject *offset, PyObject *reply)
{
    Path *path = run->path;
    PyObject *now = at(path->tx, TX.now_ms);
    PyObject *nothing = PyObject_CallMethodObjArgs(path->dedup, name_remember, event_id, now, offset, reply, NULL);
    Py_XDECREF(nothing);
    return nothing == NULL ? FAILED : DONE;
}

/* As `Deduplicator.remember`, of an id that was found to be new. */
int remember_id(Run *run, PyObject *event_id, PyObject *offset, PyObject *reply)
{
    Path *path = run->path;
    char packed[HEADER_BYTES + 1024], *end;
    uint64_t at_offset;
    end = pack_reply(path, reply, packed + HEADER_BYTES, packed + sizeof packed);
    if (end == NULL || !as_uint64(offset, &at_offset)) return remember_in_python(run, event_id, offset, reply);
    pack(packed, (uint64_t)run->clock_ms, 8);
    pack(packed + 8, at_offset, 8);
    packed[16] = 1; /* kept */
    PyObject *key = id_key(run->clock_ms / path->window_ms, event_id);
    PyObject *record = key == NULL ? NULL : PyBytes_FromStringAndSize(packed, end - packed);
    PyObject *kept = record == NULL ? NULL : PyDict_SetDefault(path->new_ids, key, record);
    int done = kept == NULL ? FAILED : kept == record ? DONE : remember_in_python(run, event_id, offset, reply);
    Py_XDECREF(key);
    Py_XDECREF(record);
    return done;
}
