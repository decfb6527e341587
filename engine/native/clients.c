/* Learns where the types of a server's clients have their slots, and counts these up. */

#include "clients.h"

struct session_slots SESSION;
static const char *const SESSION_SLOTS[] = {"_ending", "_finished", "closing", "db", "encode", "inbox", "last_active",
    "last_command", "output", "parser", "plain", "query_bytes", "received_bytes", "received_commands", NULL};

struct output_slots OUTPUT;
static const char *const OUTPUT_SLOTS[] = {"_transport", "parts", "pending_replies", "pending_reply_bytes", "pushes",
    "sent_bytes", "waiting_since", "window", NULL};

struct inbox_slots INBOX;
static const char *const INBOX_SLOTS[] = {"backlog", "fiber", NULL};

struct parser_slots PARSER;
static const char *const PARSER_SLOTS[] = {"authenticated", "is_between", NULL};

struct window_slots WINDOW;
static const char *const WINDOW_SLOTS[] = {"commands", NULL};

struct stats_slots STATS;
static const char *const STATS_SLOTS[] = {"keyspace_hits", "keyspace_misses", "net_input_bytes", "net_output_bytes",
    "reads_processed", "request_seconds", "write_seconds", "writes_processed", NULL};

struct distribution_slots DISTRIBUTION;
static const char *const DISTRIBUTION_SLOTS[] = {"bounds", "counts", "sum", NULL};

struct accounting_slots ACCOUNTING;
static const char *const ACCOUNTING_SLOTS[] = {"_slow_seconds", "_tracks_latencies", NULL};

struct plan_slots PLAN;
static const char *const PLAN_SLOTS[] = {"calls", "calls_by_digits", "counted", "name", "run_kind", "seconds", NULL};

struct answers_slots ANSWERS;
static const char *const ANSWERS_SLOTS[] = {"pending_bytes", "pending_events", NULL};

struct outbox_slots OUTBOX;
static const char *const OUTBOX_SLOTS[] = {"items", "scheduled", NULL};

PyTypeObject *client_types[CLIENT_TYPES];
static struct {
    const char *const *names;
    Py_ssize_t *slots;
} const layouts[CLIENT_TYPES] = {
    {SESSION_SLOTS, (Py_ssize_t *)&SESSION}, {OUTPUT_SLOTS, (Py_ssize_t *)&OUTPUT}, {INBOX_SLOTS, (Py_ssize_t *)&INBOX},
    {PARSER_SLOTS, (Py_ssize_t *)&PARSER}, {WINDOW_SLOTS, (Py_ssize_t *)&WINDOW}, {STATS_SLOTS, (Py_ssize_t *)&STATS},
    {DISTRIBUTION_SLOTS, (Py_ssize_t *)&DISTRIBUTION}, {ACCOUNTING_SLOTS, (Py_ssize_t *)&ACCOUNTING},
    {PLAN_SLOTS, (Py_ssize_t *)&PLAN}, {ANSWERS_SLOTS, (Py_ssize_t *)&ANSWERS}, {OUTBOX_SLOTS, (Py_ssize_t *)&OUTBOX},
};

PyObject *configure_clients(PyObject *module, PyObject *args)
{
    PyTypeObject *given[CLIENT_TYPES];
    if (!PyArg_ParseTuple(args, "O!O!O!O!O!O!O!O!O!O!O!", &PyType_Type, &given[0], &PyType_Type, &given[1], &PyType_Type, &given[2],
            &PyType_Type, &given[3], &PyType_Type, &given[4], &PyType_Type, &given[5], &PyType_Type, &given[6], &PyType_Type, &given[7],
            &PyType_Type, &given[8], &PyType_Type, &given[9], &PyType_Type, &given[10]))
        return NULL;
    for (int i = 0; i < CLIENT_TYPES; i++)
        if (find_slots(given[i], layouts[i].names, layouts[i].slots)) return NULL;
    for (int i = 0; i < CLIENT_TYPES; i++) Py_XSETREF(client_types[i], (PyTypeObject *)Py_NewRef((PyObject *)given[i]));
    Py_RETURN_NONE;
}

int add(PyObject *object, Py_ssize_t slot, int64_t more)
{
    int64_t old;
    if (!as_int64(at(object, slot), &old)) {
        PyErr_SetString(PyExc_TypeError, "a counter is no integer of 64 bits");
        return FAILED;
    }
    PyObject *sum = PyLong_FromLongLong(old + more);
    if (sum == NULL) return FAILED;
    put(object, slot, sum);
    return DONE;
}

int set_seconds(PyObject *object, Py_ssize_t slot, double seconds)
{
    PyObject *value = PyFloat_FromDouble(seconds);
    if (value == NULL) return FAILED;
    put(object, slot, value);
    return DONE;
}

int add_seconds(PyObject *object, Py_ssize_t slot, double more)
{
    PyObject *old = at(object, slot);
    if (old == NULL || !PyFloat_CheckExact(old)) {
        PyErr_SetString(PyExc_TypeError, "a time is no float");
        return FAILED;
    }
    return set_seconds(object, slot, PyFloat_AS_DOUBLE(old) + more);
}

int count_at(PyObject *counts, Py_ssize_t index, Py_ssize_t more)
{
    int64_t old;
    if (counts == NULL || !PyList_CheckExact(counts) || index >= PyList_GET_SIZE(counts) || !as_int64(PyList_GET_ITEM(counts, index), &old)) {
        PyErr_SetString(PyExc_TypeError, "counts are no list of integers");
        return FAILED;
    }
    PyObject *sum = PyLong_FromLongLong(old + more);
    return sum == NULL || PyList_SetItem(counts, index, sum) < 0 ? FAILED : DONE;
}

/* As `Distribution.add`. */
int distribute(PyObject *distribution, double seconds, Py_ssize_t count)
{
    PyObject *bounds = is_type(distribution, DISTRIBUTIONS) ? at(distribution, DISTRIBUTION.bounds) : NULL;
    if (bounds == NULL || !PyTuple_CheckExact(bounds)) {
        PyErr_SetString(PyExc_TypeError, "no distribution");
        return FAILED;
    }
    Py_ssize_t index = 0;
    while (index < PyTuple_GET_SIZE(bounds) && PyFloat_AsDouble(PyTuple_GET_ITEM(bounds, index)) < seconds) index++;
    if (PyErr_Occurred() || count_at(at(distribution, DISTRIBUTION.counts), index, count) != DONE) return FAILED;
    return add_seconds(distribution, DISTRIBUTION.sum, (double)count * seconds);
}
