/* Commands on the elements of hashes and sets: twins of functions in engine/commands/hashes/ and sets/, and engine/types/. */

#include "hot.h"

/* HSET and SADD: `step` arguments an element, the value is the second of them. */
static int put_elements(Call *call, PyObject **reply, int type, Py_ssize_t step)
{
    if ((call->count - 1) % step) return UNUSUAL;
    int done = find_key(call, call->args[0]);
    if (done == DONE) done = open_collection(call, type);
    if (done != DONE) return done;
    int64_t added = 0;
    PyObject *data = Py_NewRef(at(call->key, KEY.data));
    for (Py_ssize_t i = 1; done == DONE && i < call->count; i += step) {
        PyObject *element = call->args[i], *old = get_subkey(data, element);
        if (old == NULL) done = FAILED;
        else {
            added += old == Py_None;
            if ((step == 2 || old == Py_None) && set_subkey(data, element, step == 2 ? call->args[i + 1] : empty_bytes) < 0)
                done = FAILED;
            Py_DECREF(old);
        }
    }
    Py_DECREF(data);
    if (done == FAILED || (*reply = PyLong_FromLongLong(added)) == NULL) return FAILED;
    return grow(call->key, added);
}

int do_hset(Call *call, PyObject **reply) { return put_elements(call, reply, HASH, 2); }
int do_sadd(Call *call, PyObject **reply) { return put_elements(call, reply, SET, 1); }

int do_hincrby(Call *call, PyObject **reply)
{
    int64_t by, number = 0;
    if (!parse_int(call->args[2], &by)) return UNUSUAL;
    int done = find_key(call, call->args[0]);
    if (done != DONE) return done;
    PyObject *field = call->args[1], *old = Py_NewRef(Py_None), *value = NULL;
    if (call->type != NONE) { /* of a hash, what it has there; that much may be unusual */
        if (plain_code(call->key) != HASH) done = UNUSUAL;
        else {
            Py_SETREF(old, get_subkey(at(call->key, KEY.data), field));
            if (old == NULL) return FAILED;
            if (old != Py_None && !(is_bytes(old) && parse_int(old, &number))) done = UNUSUAL;
        }
    }
    if (done == DONE && __builtin_add_overflow(number, by, &number)) done = UNUSUAL;
    if (done == DONE) done = open_collection(call, HASH);
    if (done == DONE) {
        value = spelled_int64(number);
        *reply = PyLong_FromLongLong(number);
        if (value == NULL || *reply == NULL || set_subkey(at(call->key, KEY.data), field, value) < 0) done = FAILED;
        else done = grow(call->key, old == Py_None);
    }
    Py_DECREF(old);
    Py_XDECREF(value);
    return done;
}

/* HDEL and SREM. */
static int remove_elements(Call *call, PyObject **reply, int type)
{
    int64_t removed = 0, size;
    int done = find_key(call, call->args[0]);
    if (done != DONE) return done;
    if (call->type != NONE) {
        PyObject *key = call->key;
        if (plain_code(key) != type || !has_size(key, &size)) return UNUSUAL;
        PyObject *data = Py_NewRef(at(key, KEY.data));
        for (Py_ssize_t i = 1; done == DONE && i < call->count; i++) {
            PyObject *old = get_subkey(data, call->args[i]);
            if (old == NULL || (old != Py_None && set_subkey(data, call->args[i], Py_None) < 0)) done = FAILED;
            else removed += old != Py_None;
            Py_XDECREF(old);
        }
        Py_DECREF(data);
        if (done == FAILED || grow(key, -removed) == FAILED) return FAILED;
        if (removed && size == removed && delete_key(call) == FAILED) return FAILED;
    }
    *reply = PyLong_FromLongLong(removed);
    return *reply == NULL ? FAILED : DONE;
}

int do_hdel(Call *call, PyObject **reply) { return remove_elements(call, reply, HASH); }
int do_srem(Call *call, PyObject **reply) { return remove_elements(call, reply, SET); }
