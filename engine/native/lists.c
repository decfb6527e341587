/* Commands on lists: twins of functions in engine/commands/lists/ends.py and engine/types/lists.py. */

#include "hot.h"

/* Writes or deletes (None) the element at an index. */
static int set_element(PyObject *key, uint64_t index, PyObject *value)
{
    PyObject *packed = PyBytes_FromStringAndSize(NULL, 8);
    if (packed == NULL) return FAILED;
    pack(PyBytes_AS_STRING(packed), index, 8);
    int failed = set_subkey(at(key, KEY.data), packed, value);
    Py_DECREF(packed);
    return failed ? FAILED : DONE;
}

/* The list has other ends now. A new reference to its size. */
static PyObject *set_ends(PyObject *key, uint64_t head, uint64_t tail)
{
    PyObject *first = PyLong_FromUnsignedLongLong(head), *end = PyLong_FromUnsignedLongLong(tail);
    PyObject *size = PyLong_FromUnsignedLongLong(tail - head);
    if (first == NULL || end == NULL || size == NULL) {
        Py_XDECREF(first);
        Py_XDECREF(end);
        Py_XDECREF(size);
        return NULL;
    }
    put(key, KEY.head, first);
    put(key, KEY.tail, end);
    put_new(key, KEY.size, size);
    put_new(key, KEY.changed, Py_True);
    return size;
}

static inline int has_ends(PyObject *key, uint64_t *head, uint64_t *tail)
{
    return as_uint64(at(key, KEY.head), head) && as_uint64(at(key, KEY.tail), tail) && *head <= *tail;
}

static int push(Call *call, PyObject **reply, int to_head)
{
    uint64_t head, tail, more = (uint64_t)(call->count - 1);
    int found = find_key(call, call->args[0]);
    if (found != DONE) return found;
    PyObject *key = call->key;
    if (!has_ends(key, &head, &tail) || head < more || tail > UINT64_MAX - more || tail - head + more > INT64_MAX) return UNUSUAL;
    int opened = open_collection(call, LIST);
    if (opened != DONE) return opened;
    /* A list that was made just now begins at LIST_START, as any key without one. */
    if (!has_ends(key, &head, &tail)) return FAILED;
    for (Py_ssize_t i = 1; i < call->count; i++)
        if (set_element(key, to_head ? --head : tail++, call->args[i]) == FAILED) return FAILED;
    *reply = set_ends(key, head, tail);
    return *reply == NULL ? FAILED : DONE;
}

int do_lpush(Call *call, PyObject **reply) { return push(call, reply, 1); }
int do_rpush(Call *call, PyObject **reply) { return push(call, reply, 0); }

/* Of a list of which elements are left. */
int do_ltrim(Call *call, PyObject **reply)
{
    int64_t start, stop, size;
    uint64_t head, tail;
    if (!parse_int(call->args[1], &start) || !parse_int(call->args[2], &stop)) return UNUSUAL;
    int found = find_key(call, call->args[0]);
    if (found != DONE) return found;
    PyObject *key = call->key;
    if (call->type != NONE) {
        if (plain_code(key) != LIST || !has_size(key, &size) || !has_ends(key, &head, &tail) || tail - head != (uint64_t)size)
            return UNUSUAL;
        if (start < 0) start = start + size > 0 ? start + size : 0;
        stop = stop < 0 ? stop + size + 1 : stop < size ? stop + 1 : size;
        if (start >= stop) return UNUSUAL;
        if (start > 0 || stop < size) {
            uint64_t first = head + (uint64_t)start, end = head + (uint64_t)stop;
            for (uint64_t index = head; index < first; index++)
                if (set_element(key, index, Py_None) == FAILED) return FAILED;
            for (uint64_t index = end; index < tail; index++)
                if (set_element(key, index, Py_None) == FAILED) return FAILED;
            PyObject *left = set_ends(key, first, end);
            if (left == NULL) return FAILED;
            Py_DECREF(left);
        }
    }
    *reply = Py_NewRef(call->run->path->ok);
    return DONE;
}
