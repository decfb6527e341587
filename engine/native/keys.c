/* Finds keys and subkeys in the overlay of a batch, loads, opens and deletes them: twin of parts of engine/batch/. */

#include "hot.h"

static PyObject *name_load, *name_create, *name_delete;

int init_keys(void)
{
    name_load = PyUnicode_InternFromString("_load");
    name_create = PyUnicode_InternFromString("create");
    name_delete = PyUnicode_InternFromString("delete");
    return name_load == NULL || name_create == NULL || name_delete == NULL ? FAILED : DONE;
}

/* A key that no store has. */
static PyObject *new_key(PyObject *db, PyObject *name, PyObject *metadata_key)
{
    PyObject *key = key_type->tp_alloc(key_type, 0);
    if (key == NULL) return NULL;
    for (Py_ssize_t slot = sizeof(PyObject); slot < key_type->tp_basicsize; slot += sizeof(PyObject *))
        put(key, slot, Py_XNewRef(at(new_key_model, slot)));
    put_new(key, KEY.db, db);
    put_new(key, KEY.name, name);
    put_new(key, KEY.metadata_key, metadata_key);
    return key;
}

/* Adds to an int in a slot, which is known to be one of 64 bits. */
int add_to(PyObject *object, Py_ssize_t slot, int64_t more)
{
    int64_t number;
    if (!as_int64(at(object, slot), &number) || __builtin_add_overflow(number, more, &number)) {
        PyErr_SetString(PyExc_OverflowError, "a count of more than 64 bits");
        return FAILED;
    }
    PyObject *sum = PyLong_FromLongLong(number);
    if (sum == NULL) return FAILED;
    put(object, slot, sum);
    return DONE;
}

/* As `Transaction._load`: the key from the store, and into the overlay. A new reference. */
static PyObject *load(Path *path, PyObject *keys, PyObject *name)
{
    PyObject *tx = path->tx, *dbs = at(tx, TX.stored_dbs);
    if (path->get_metadata == Py_None || PySet_GET_SIZE(path->flushed) || PyBytes_GET_SIZE(name) > path->cached_bytes_max ||
        dbs == NULL || !PyTuple_CheckExact(dbs) || !PyTuple_GET_SIZE(dbs))
        return PyObject_CallMethodOneArg(tx, name_load, name);
    PyObject *db = PyTuple_GET_ITEM(dbs, 0);
    if (db != path->prefix_db) {
        PyObject *prefix = PyObject_CallOneArg(path->prefix_of, db);
        if (prefix == NULL) return NULL;
        if (!PyBytes_CheckExact(prefix)) {
            Py_DECREF(prefix);
            PyErr_SetString(PyExc_TypeError, "a prefix is not bytes");
            return NULL;
        }
        Py_XSETREF(path->prefix, prefix);
        Py_XSETREF(path->prefix_db, Py_NewRef(db));
    }
    PyObject *metadata_key = pack_metadata_key(path->prefix, name);
    if (metadata_key == NULL) return NULL;
    PyObject *stored = PyObject_CallOneArg(path->get_metadata, metadata_key);
    PyObject *key = stored == NULL ? NULL : new_key(db, name, metadata_key);
    Py_DECREF(metadata_key);
    if (key == NULL) goto failed;
    if (stored != Py_None) {
        const char *from = PyBytes_CheckExact(stored) ? PyBytes_AS_STRING(stored) : "";
        if (PyBytes_CheckExact(stored) && PyBytes_GET_SIZE(stored) >= 9 && (unsigned char)*from == (0x80 | STRING)) {
            PyObject *expire_ms = PyLong_FromUnsignedLongLong(parse((const unsigned char *)from + 1, 8));
            PyObject *value = PyBytes_FromStringAndSize(from + 9, PyBytes_GET_SIZE(stored) - 9);
            if (expire_ms != NULL) {
                put_new(key, KEY.indexed_expire_ms, expire_ms);
                put(key, KEY.expire_ms, expire_ms);
            }
            if (value != NULL) put(key, KEY.value, value);
            if (expire_ms == NULL || value == NULL) goto failed;
            put_new(key, KEY.type, codes[STRING]);
        }
        else {
            PyObject *nothing = PyObject_CallFunctionObjArgs(path->load_stored, key, stored, NULL);
            if (nothing == NULL) goto failed;
            Py_DECREF(nothing);
        }
    }
    Py_CLEAR(stored);
    if (!is_bytes(at(key, KEY.value))) {
        PyErr_SetString(PyExc_TypeError, "a value is not bytes");
        goto failed;
    }
    Py_ssize_t size = PyBytes_GET_SIZE(at(key, KEY.value));
    if (PyBytes_GET_SIZE(name) + size > path->cached_bytes_max && PyList_Append(path->large, key) < 0) goto failed;
    if (PyDict_SetItem(keys, name, key) < 0) goto failed;
    if (size && add_to(tx, TX.value_bytes, size) == FAILED) goto failed;
    return key;
failed:
    Py_XDECREF(stored);
    Py_XDECREF(key);
    return NULL;
}

/* Finds the key `name` for a call, which owns it then, and notes it as touched. UNUSUAL: it is dead. */
int find_key(Call *call, PyObject *name)
{
    PyObject *keys = Py_NewRef(at(call->tx, TX.keys)), *key = Py_XNewRef(PyDict_GetItemWithError(keys, name));
    if (key == NULL) key = PyErr_Occurred() ? NULL : load(call->run->path, keys, name);
    Py_DECREF(keys);
    Py_XSETREF(call->key, key);
    if (key == NULL) return FAILED;
    PyObject *touched = Py_TYPE(key) == key_type ? at(key, KEY.touched) : NULL;
    if (touched == Py_False) {
        if (PyList_Append(at(call->tx, TX.touched), key) < 0) return FAILED;
        put_new(key, KEY.touched, Py_True);
    }
    else if (touched != Py_True) return UNUSUAL;
    int64_t expire_ms;
    if (!as_int64(at(key, KEY.expire_ms), &expire_ms) || (expire_ms != 0 && expire_ms <= call->run->clock_ms)) return UNUSUAL;
    call->type = code_of(key);
    return call->type < 0 ? UNUSUAL : DONE;
}

/* Turns to the record, as `Transaction.begin`. Where it is unusual, Python turns to it again. */
int begin(Run *run, PyObject *offset, PyObject *time_ms, int64_t ms)
{
    PyObject *tx = run->path->tx, *now = ms > run->clock_ms ? Py_NewRef(time_ms) : PyLong_FromLongLong(run->clock_ms);
    if (now == NULL) return FAILED;
    put_new(tx, TX.offset, offset);
    put_new(tx, TX.draws, zero);
    put_new(tx, TX.written_bytes, zero);
    put(tx, TX.now_ms, now);
    if (ms > run->clock_ms) {
        run->clock_ms = ms;
        run->moved = 1;
    }
    return DONE;
}

/* The value of a subkey, None when it is absent; a new reference. As `Subkeys.get`; what it reads of a collection whose
 * elements are packed stays in memory. */
PyObject *get_subkey(PyObject *subkeys, PyObject *subkey)
{
    PyObject *value = PyDict_GetItemWithError(at(subkeys, SUBKEYS.changed), subkey);
    if (value != NULL) return Py_NewRef(value);
    if (PyErr_Occurred()) return NULL;
    if (at(subkeys, SUBKEYS.fresh) == Py_True) return Py_NewRef(Py_None);
    PyObject *kept = at(subkeys, SUBKEYS.kept), *packed = at(subkeys, SUBKEYS.packed);
    if (is_dict(kept)) {
        value = PyDict_GetItemWithError(kept, subkey);
        if (value != NULL) return Py_NewRef(value);
        if (PyErr_Occurred()) return NULL;
        if (at(subkeys, SUBKEYS.whole) == Py_True) return Py_NewRef(Py_None);
    }
    else if (is_table(packed)) {
        value = get_packed(packed, subkey);
        if (value != NULL || PyErr_Occurred()) return value;
    }
    PyObject *record = joined(at(subkeys, SUBKEYS.prefix), subkey), *get = at(subkeys, SUBKEYS.get);
    if (record == NULL) return NULL;
    Py_INCREF(get);
    value = PyObject_CallOneArg(get, record);
    Py_DECREF(get);
    Py_DECREF(record);
    if (value != NULL && PyBytes_CheckExact(value) && is_table(packed) && packed == at(subkeys, SUBKEYS.packed) &&
        put_packed(packed, subkey, value) == FAILED)
        Py_CLEAR(value);
    return value;
}

/* Makes the key a collection where it is nothing, or sees that it is one of this type, with subkeys as they usually are. */
int open_collection(Call *call, int type)
{
    PyObject *key = call->key;
    if (at(key, KEY.times) != Py_None || at(key, KEY.ranks) != Py_None) return UNUSUAL;
    if (call->type == type) return plain_code(key) == type ? DONE : UNUSUAL;
    if (call->type != NONE || at(key, KEY.version) != zero) return UNUSUAL;
    PyObject *made = PyObject_CallMethodObjArgs(call->tx, name_create, at(key, KEY.name), codes[type], NULL);
    if (made == NULL) return FAILED;
    int is_usual = made == key && plain_code(key) == type;
    Py_DECREF(made);
    if (is_usual) return DONE;
    PyErr_SetString(PyExc_TypeError, "a new collection is not as expected");
    return FAILED;
}

/* `added` elements more; the metadata has changed if there are any. */
int grow(PyObject *key, int64_t added)
{
    if (!added) return DONE;
    put_new(key, KEY.changed, Py_True);
    return add_to(key, KEY.size, added);
}

int delete_key(Call *call)
{
    PyObject *nothing = PyObject_CallMethodOneArg(call->tx, name_delete, call->key);
    Py_XDECREF(nothing);
    return nothing == NULL ? FAILED : DONE;
}
