/* Goes through the records of a batch and applies those that are usual: twin of the loop of `Machine.apply`. */

#include "hot.h"

static PyObject *name_clock, *name_is_plain, *name_set_backs, *name_outcomes, *name_commands;

/* Tells Python what the records have done that were applied since it was told last. */
int tell(Run *run)
{
    if (run->moved) {
        PyObject *clock = PyLong_FromLongLong(run->clock_ms);
        if (clock == NULL) return FAILED;
        int failed = PyObject_SetAttr(run->path->executor, name_clock, clock);
        Py_DECREF(clock);
        if (failed) return FAILED;
        run->moved = 0;
    }
    for (int i = 0; commands[i].name != NULL; i++) {
        if (!run->by_command[i]) continue;
        PyObject *old = PyObject_GetItem(run->counted, commands[i].bytes), *more = PyLong_FromSsize_t(run->by_command[i]);
        PyObject *sum = old == NULL || more == NULL ? NULL : PyNumber_Add(old, more);
        int failed = sum == NULL || PyObject_SetItem(run->counted, commands[i].bytes, sum) < 0;
        Py_XDECREF(old);
        Py_XDECREF(more);
        Py_XDECREF(sum);
        if (failed) return FAILED;
        run->by_command[i] = 0;
    }
    return DONE;
}

/* Whether commands simply run, at which time, and whether ids can be looked up. */
static int may_apply(Run *run)
{
    PyObject *is_plain = PyObject_GetAttr(run->path->executor, name_is_plain);
    if (is_plain == NULL) return FAILED;
    Py_DECREF(is_plain);
    if (is_plain != Py_True) return UNUSUAL;
    PyObject *set_backs = PyObject_GetAttr(run->path->dedup, name_set_backs);
    if (set_backs == NULL) return FAILED;
    run->has_ids = PyTuple_CheckExact(set_backs) && !PyTuple_GET_SIZE(set_backs);
    Py_DECREF(set_backs);
    PyObject *clock = PyObject_GetAttr(run->path->executor, name_clock);
    if (clock == NULL) return FAILED;
    int may = as_int64(clock, &run->clock_ms) && run->clock_ms >= 0;
    Py_DECREF(clock);
    return may ? DONE : UNUSUAL;
}

static int is_full(Run *run)
{
    int64_t bytes;
    return as_int64(at(run->path->tx, TX.value_bytes), &bytes) && bytes > run->path->overlay_bytes_max;
}

/* The next record that is Python's: all usual ones before it are applied. */
static PyObject *run_next(Run *run)
{
    Py_ssize_t size = PyTuple_GET_SIZE(run->records);
    if (run->at >= size || run->full || run->failed) return NULL;
    int done = may_apply(run);
    for (; done == DONE && run->at < size; run->at++) {
        PyObject *record = PyTuple_GET_ITEM(run->records, run->at);
        done = apply_record(run, record);
        if (done != DONE) break;
        run->taken++;
        Py_XSETREF(run->last_offset, Py_NewRef(PyTuple_GET_ITEM(record, 0)));
        if (is_full(run)) {
            run->at++;
            run->full = 1;
            break;
        }
    }
    if (done == FAILED || tell(run) == FAILED) {
        run->failed = 1;
        return NULL;
    }
    if (done == DONE) return NULL; /* at the end, or full */
    return Py_NewRef(PyTuple_GET_ITEM(run->records, run->at++));
}

PyDoc_STRVAR(at_hand_doc, "at_hand(offset, name): those of the record that failed here; what is given if none did.");

static PyObject *run_at_hand(Run *run, PyObject *given)
{
    PyObject *record = run->failed && run->at < PyTuple_GET_SIZE(run->records) ? PyTuple_GET_ITEM(run->records, run->at) : NULL;
    if (record == NULL || !PyTuple_CheckExact(record) || PyTuple_GET_SIZE(record) != 7) return Py_NewRef(given);
    return PyTuple_Pack(2, PyTuple_GET_ITEM(record, 0), PyTuple_GET_ITEM(record, 2));
}

PyDoc_STRVAR(end_doc, "end(offset): how many records were applied here, and the greater of the last one's offset and `offset`.");

static PyObject *run_end(Run *run, PyObject *offset)
{
    int later = run->last_offset == NULL ? 0 : PyObject_RichCompareBool(run->last_offset, offset, Py_GT);
    if (later < 0) return NULL;
    return Py_BuildValue("nO", run->taken, later ? run->last_offset : offset);
}

static int run_traverse(Run *run, visitproc visit, void *arg)
{
    Py_VISIT(run->path);
    Py_VISIT(run->records);
    Py_VISIT(run->waiting);
    Py_VISIT(run->applied);
    Py_VISIT(run->outcomes);
    Py_VISIT(run->counted);
    Py_VISIT(run->last_offset);
    return 0;
}

static int run_clear(Run *run)
{
    Py_CLEAR(run->path);
    Py_CLEAR(run->records);
    Py_CLEAR(run->waiting);
    Py_CLEAR(run->applied);
    Py_CLEAR(run->outcomes);
    Py_CLEAR(run->counted);
    Py_CLEAR(run->last_offset);
    return 0;
}

static void run_dealloc(Run *run)
{
    PyObject_GC_UnTrack(run);
    run_clear(run);
    Py_TYPE(run)->tp_free(run);
}

static PyMethodDef run_methods[] = {
    {"at_hand", (PyCFunction)run_at_hand, METH_VARARGS, at_hand_doc},
    {"end", (PyCFunction)run_end, METH_O, end_doc},
    {NULL},
};

static PyTypeObject RunType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "engine.native._hot.Run",
    .tp_doc = "Applies the usual records of one batch, and gives all others, in their order.",
    .tp_basicsize = sizeof(Run),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_traverse = (traverseproc)run_traverse,
    .tp_clear = (inquiry)run_clear,
    .tp_dealloc = (destructor)run_dealloc,
    .tp_iter = PyObject_SelfIter,
    .tp_iternext = (iternextfunc)run_next,
    .tp_methods = run_methods,
};

PyDoc_STRVAR(others_doc, "others(records, applied, waiting): a `Run` over the records of one batch.");

static PyObject *path_others(Path *path, PyObject *const *given, Py_ssize_t count)
{
    if (count != 3) {
        PyErr_SetString(PyExc_TypeError, "others(records, applied, waiting)");
        return NULL;
    }
    Run *run = PyObject_GC_New(Run, &RunType);
    if (run == NULL) return NULL;
    memset((char *)run + sizeof(PyObject), 0, sizeof(Run) - sizeof(PyObject));
    run->path = (Path *)Py_NewRef((PyObject *)path);
    run->records = PySequence_Tuple(given[0]);
    run->applied = Py_NewRef(given[1]);
    run->outcomes = PyObject_GetAttr(given[1], name_outcomes);
    run->counted = PyObject_GetAttr(given[1], name_commands);
    PyObject_GC_Track(run);
    int waits = PyObject_IsTrue(given[2]);
    if (waits > 0) run->waiting = Py_NewRef(given[2]);
    if (run->records == NULL || run->counted == NULL || !is_dict(run->outcomes) || waits < 0) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "outcomes are no dict");
        Py_DECREF(run);
        return NULL;
    }
    return (PyObject *)run;
}

static int path_traverse(Path *path, visitproc visit, void *arg)
{
    for (PyObject **each = &path->tx; each <= &path->prefix; each++) Py_VISIT(*each);
    return 0;
}

static int path_clear(Path *path)
{
    for (PyObject **each = &path->tx; each <= &path->prefix; each++) Py_CLEAR(*each);
    return 0;
}

static void path_dealloc(Path *path)
{
    PyObject_GC_UnTrack(path);
    path_clear(path);
    Py_TYPE(path)->tp_free(path);
}

static PyObject *path_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *words[] = {"tx", "executor", "dedup", "new_ids", "get_id", "get_metadata", "load_stored", "prefix_of", "flushed",
        "large", "listings", "make_listing", "ok", "parse_double", "time_max", "overlay_bytes_max", "window_ms", "cached_bytes_max", "plain_size_max",
        "partition", "partitions", "block_max", "group_max", "held_max", "scored_max", NULL};
    enum { OBJECTS = 14 };
    PyObject *given[OBJECTS];
    long long time_max, overlay_bytes_max, window_ms, block_max, group_max, held_max, scored_max;
    Py_ssize_t cached_bytes_max, plain_size_max;
    unsigned int partition, partitions;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "$OOOOOOOOOOOOOOLLLnnIILLLL", words, &given[0], &given[1], &given[2], &given[3],
            &given[4], &given[5], &given[6], &given[7], &given[8], &given[9], &given[10], &given[11], &given[12], &given[13], &time_max,
            &overlay_bytes_max, &window_ms, &cached_bytes_max, &plain_size_max, &partition, &partitions,
            &block_max, &group_max, &held_max, &scored_max))
        return NULL;
    if (tx_type == NULL || Py_TYPE(given[0]) != tx_type || !PyList_CheckExact(at(given[0], TX.touched)) ||
        !PyDict_CheckExact(given[3]) || !PySet_CheckExact(given[8]) || !PyList_CheckExact(given[9]) || !PyDict_CheckExact(given[10]) ||
        window_ms <= 0) {
        PyErr_SetString(PyExc_TypeError, "a transaction, a set, a list and two dicts of other types");
        return NULL;
    }
    Path *path = (Path *)type->tp_alloc(type, 0);
    if (path == NULL) return NULL;
    for (int i = 0; i < OBJECTS; i++) (&path->tx)[i] = Py_NewRef(given[i]);
    path->time_max = time_max;
    path->overlay_bytes_max = overlay_bytes_max;
    path->window_ms = window_ms;
    path->cached_bytes_max = cached_bytes_max;
    path->plain_size_max = plain_size_max;
    path->partition = partition;
    path->partitions = partitions;
    path->block_max = block_max;
    path->group_max = group_max;
    path->held_max = held_max;
    path->scored_max = scored_max;
    return (PyObject *)path;
}

static PyMethodDef path_methods[] = {
    {"others", (PyCFunction)(void (*)(void))path_others, METH_FASTCALL, others_doc},
    {NULL},
};

PyTypeObject PathType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "engine.native._hot.Path",
    .tp_doc = "The hot path of one machine.",
    .tp_basicsize = sizeof(Path),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_traverse = (traverseproc)path_traverse,
    .tp_clear = (inquiry)path_clear,
    .tp_dealloc = (destructor)path_dealloc,
    .tp_new = path_new,
    .tp_methods = path_methods,
};

int init_runs(void)
{
    name_clock = PyUnicode_InternFromString("clock_ms");
    name_is_plain = PyUnicode_InternFromString("is_plain");
    name_set_backs = PyUnicode_InternFromString("set_backs");
    name_outcomes = PyUnicode_InternFromString("outcomes");
    name_commands = PyUnicode_InternFromString("commands");
    if (!name_clock || !name_is_plain || !name_set_backs || !name_outcomes || !name_commands) return FAILED;
    return PyType_Ready(&RunType) < 0 || PyType_Ready(&PathType) < 0 ? FAILED : DONE;
}
