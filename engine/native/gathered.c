/* Records that are gathered before they are written: twin of engine/store/gathered.py. */

#include "hot.h"

#include <stddef.h>

/* ------------------------------------------------------------------------------------------------------- a point read */

typedef struct {
    PyObject_HEAD
    PyObject *gathered, *get; /* a dict; what is asked where a key is not in it */
    vectorcallfunc call;
} Getter;

static PyObject *ask(PyObject *self, PyObject *const *given, size_t counted, PyObject *names)
{
    Getter *getter = (Getter *)self;
    if (PyVectorcall_NARGS(counted) != 1 || names != NULL) {
        PyErr_SetString(PyExc_TypeError, "a getter takes a key");
        return NULL;
    }
    if (PyDict_GET_SIZE(getter->gathered)) {
        PyObject *value = PyDict_GetItemWithError(getter->gathered, given[0]);
        if (value != NULL) return Py_NewRef(value);
        if (PyErr_Occurred()) return NULL;
    }
    return PyObject_Vectorcall(getter->get, given, 1, NULL);
}

static PyObject *new_getter(PyTypeObject *type, PyObject *args, PyObject *named)
{
    PyObject *gathered, *get;
    if (!PyArg_ParseTuple(args, "O!O", &PyDict_Type, &gathered, &get)) return NULL;
    Getter *getter = (Getter *)type->tp_alloc(type, 0);
    if (getter == NULL) return NULL;
    getter->gathered = Py_NewRef(gathered);
    getter->get = Py_NewRef(get);
    getter->call = ask;
    return (PyObject *)getter;
}

static int visit_getter(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(((Getter *)self)->gathered);
    Py_VISIT(((Getter *)self)->get);
    return 0;
}

static int clear_getter(PyObject *self)
{
    Py_CLEAR(((Getter *)self)->gathered);
    Py_CLEAR(((Getter *)self)->get);
    return 0;
}

static void free_getter(PyObject *self)
{
    PyObject_GC_UnTrack(self);
    clear_getter(self);
    Py_TYPE(self)->tp_free(self);
}

PyTypeObject GetterType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "engine.native._hot.Getter",
    .tp_doc = PyDoc_STR("Getter(gathered, get): the value of a key, by `get` where it is not gathered."),
    .tp_basicsize = sizeof(Getter),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(Getter, call),
    .tp_call = PyVectorcall_Call,
    .tp_new = new_getter,
    .tp_traverse = visit_getter,
    .tp_clear = clear_getter,
    .tp_dealloc = free_getter,
};

/* ---------------------------------------------------------------------------------------------------------- gathering */

static int is_record(PyObject *key, PyObject *value)
{
    if (is_bytes(key) && (value == Py_None || is_bytes(value))) return 1;
    PyErr_SetString(PyExc_TypeError, "a key or its value is not bytes");
    return 0;
}

/* Puts the records of all column families among those that are gathered. Nothing else runs meanwhile: a batch is there
 * with all of its records or not at all, also where its machine is suspended or given up. */
PyObject *gather(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    if (count != 2 || !PyDict_CheckExact(given[0]) || !PyDict_CheckExact(given[1])) {
        PyErr_SetString(PyExc_TypeError, "gather(gathered, values)");
        return NULL;
    }
    PyObject *name, *records, *key, *value;
    Py_ssize_t at = 0, place, size = 0;
    while (PyDict_Next(given[1], &at, &name, &records)) {
        PyObject *gathered = PyDict_GetItemWithError(given[0], name);
        if (gathered == NULL || !PyDict_CheckExact(gathered) || !PyDict_CheckExact(records)) {
            if (!PyErr_Occurred()) PyErr_Format(PyExc_KeyError, "%R is no column family with records", name);
            return NULL;
        }
        for (place = 0; PyDict_Next(records, &place, &key, &value);) {
            if (!is_record(key, value)) return NULL;
            size += PyBytes_GET_SIZE(key) + (value == Py_None ? 0 : PyBytes_GET_SIZE(value));
        }
    }
    for (at = 0; PyDict_Next(given[1], &at, &name, &records);)
        if (PyDict_Update(PyDict_GetItemWithError(given[0], name), records) < 0) return NULL;
    return PyLong_FromSsize_t(size);
}

/* --------------------------------------------------------------------------------------------------------- in order */

typedef struct {
    uint64_t head; /* of the key behind what all keys begin with, as a number */
    PyObject *key, *value;
} Sorted;

static int compare_keys(PyObject *one, PyObject *other)
{
    Py_ssize_t size = PyBytes_GET_SIZE(one), others = PyBytes_GET_SIZE(other);
    int order = memcmp(PyBytes_AS_STRING(one), PyBytes_AS_STRING(other), size < others ? size : others);
    return order ? order : (size > others) - (size < others);
}

static int compare(const void *one, const void *other)
{
    const Sorted *a = one, *b = other;
    if (a->head != b->head) return a->head < b->head ? -1 : 1;
    return compare_keys(a->key, b->key);
}

static uint64_t head_of(PyObject *key, Py_ssize_t shared)
{
    const unsigned char *bytes = (const unsigned char *)PyBytes_AS_STRING(key) + shared;
    Py_ssize_t left = PyBytes_GET_SIZE(key) - shared;
    uint64_t head = 0;
    for (int i = 0; i < 8; i++) head = head << 8 | (i < left ? bytes[i] : 0);
    return head;
}

/* How many of the first `end` keys, in order, are below this one. */
static Py_ssize_t place_of(PyObject *const *keys, Py_ssize_t end, PyObject *key)
{
    Py_ssize_t start = 0;
    while (start < end) {
        Py_ssize_t middle = start + (end - start) / 2;
        if (compare_keys(keys[middle], key) < 0) start = middle + 1;
        else end = middle;
    }
    return start;
}

/* The records of a dict from which nothing was deleted, without the first `from`, in the order of their keys. */
static Sorted *sorted(PyObject *records, Py_ssize_t from)
{
    Py_ssize_t size = PyDict_GET_SIZE(records) - from, place = from, at = 0, shared = PY_SSIZE_T_MAX;
    Sorted *all = PyMem_New(Sorted, size);
    if (all == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    PyObject *key, *value, *first = NULL;
    while (PyDict_Next(records, &place, &key, &value)) {
        if (at == size) PyErr_SetString(PyExc_ValueError, "something was deleted from the gathered records");
        if (at == size || !is_record(key, value)) {
            PyMem_Free(all);
            return NULL;
        }
        if (first == NULL) first = key;
        Py_ssize_t most = PyBytes_GET_SIZE(key) < shared ? PyBytes_GET_SIZE(key) : shared;
        if (most > PyBytes_GET_SIZE(first)) most = PyBytes_GET_SIZE(first);
        if (memcmp(PyBytes_AS_STRING(key), PyBytes_AS_STRING(first), most) == 0) shared = most;
        else for (shared = 0; PyBytes_AS_STRING(key)[shared] == PyBytes_AS_STRING(first)[shared]; shared++);
        all[at++] = (Sorted){0, key, value};
    }
    for (at = 0; at < size; at++) all[at].head = head_of(all[at].key, shared);
    qsort(all, size, sizeof(Sorted), compare);
    return all;
}

/* Brings `order` up to what is in `values`: the keys of the latter, in their order. What is new in a dict from which nothing
 * is ever deleted stands at its end. */
PyObject *bring_in_order(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    if (count != 2 || !PyList_CheckExact(given[0]) || !PyDict_CheckExact(given[1])) {
        PyErr_SetString(PyExc_TypeError, "bring_in_order(order, values)");
        return NULL;
    }
    Py_ssize_t before = PyList_GET_SIZE(given[0]), added = PyDict_GET_SIZE(given[1]) - before;
    if (added <= 0) Py_RETURN_NONE;
    Sorted *new = sorted(given[1], before);
    if (new == NULL) return NULL;
    for (Py_ssize_t i = 0; i < added; i++) {
        if (PyList_Append(given[0], Py_None) < 0) {
            PyList_SetSlice(given[0], before, PyList_GET_SIZE(given[0]), NULL);
            PyMem_Free(new);
            return NULL;
        }
    }
    /* From the end on: those behind each new key move up by as many places as there are new ones before them. */
    PyObject **keys = ((PyListObject *)given[0])->ob_item;
    for (Py_ssize_t i = added - 1, end = before; i >= 0; i--) {
        Py_ssize_t place = place_of(keys, end, new[i].key);
        memmove(keys + place + i + 1, keys + place, (end - place) * sizeof(PyObject *));
        keys[place + i] = Py_NewRef(new[i].key);
        end = place;
    }
    for (Py_ssize_t i = 0; i < added; i++) Py_DECREF(Py_None); /* those that were appended */
    PyMem_Free(new);
    Py_RETURN_NONE;
}

static int put_one(PyObject *batch, PyObject *key, PyObject *value, Py_ssize_t *deleted)
{
    if (value != Py_None) return PyObject_SetItem(batch, key, value);
    ++*deleted;
    return PyObject_DelItem(batch, key);
}

PyObject *put_all(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    Py_ssize_t sorted_from = count == 3 && PyDict_CheckExact(given[1]) ? PyLong_AsSsize_t(given[2]) : -1;
    if (sorted_from < 0) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "put_all(batch, records, sorted_from)");
        return NULL;
    }
    Py_ssize_t size = PyDict_GET_SIZE(given[1]), deleted = 0, at = 0;
    PyObject *key, *value;
    int failed = 0;
    if (size < sorted_from) {
        while (!failed && PyDict_Next(given[1], &at, &key, &value)) failed = put_one(given[0], key, value, &deleted);
        return failed ? NULL : PyLong_FromSsize_t(deleted);
    }
    Sorted *all = sorted(given[1], 0);
    if (all == NULL) return NULL;
    for (Py_ssize_t i = 0; i < size && !failed; i++) failed = put_one(given[0], all[i].key, all[i].value, &deleted);
    PyMem_Free(all);
    return failed ? NULL : PyLong_FromSsize_t(deleted);
}
