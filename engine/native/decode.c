/* Turns records of a log into events: twin of `slotlog.events.decode`. */

#include "hot.h"

enum {
    NAME_AT = 8,             /* where a head has the header of its name */
    HEAD_MORE = 9 + 5 - 0xa0, /* how long a head is beside that header */
    MAP_OF_3 = 0x83,         /* what a head begins with, */
    MAP_OF_4 = 0x84,         /* and an event that has an id behind its arguments */
    ID_BYTES_MAX = 64,
};

/* What is left of a record's value. */
typedef struct {
    const unsigned char *from, *end;
} Rest;

/* Reads the header of an array. Its size, -1: Python must look at it. */
static Py_ssize_t read_array(Rest *rest)
{
    Py_ssize_t count;
    if (rest->from >= rest->end) return -1;
    if ((*rest->from & 0xf0) == 0x90) count = *rest->from++ & 0x0f;
    else if (*rest->from == 0xdc && rest->end - rest->from >= 3) {
        count = (Py_ssize_t)parse(rest->from + 1, 2);
        rest->from += 3;
    }
    else return -1;
    return count > rest->end - rest->from ? -1 : count;
}

/* Reads a string. NULL without an error: there is none here, and nothing was read. */
static PyObject *read_string(Rest *rest)
{
    const unsigned char *from = rest->from;
    Py_ssize_t size;
    if (from >= rest->end) return NULL;
    unsigned char head = *from++;
    if ((head & 0xe0) == 0xa0) size = head & 0x1f;
    else {
        int bytes;
        if (head == 0xc4 || head == 0xd9) bytes = 1;
        else if (head == 0xc5 || head == 0xda) bytes = 2;
        else return NULL;
        if (rest->end - from < bytes) return NULL;
        size = (Py_ssize_t)parse(from, bytes);
        from += bytes;
    }
    if (rest->end - from < size) return NULL;
    rest->from = from + size;
    return PyBytes_FromStringAndSize((const char *)from, size);
}

/* Reads an integer, spelled. NULL without an error: there is none here. */
static PyObject *read_integer(Rest *rest)
{
    if (rest->from >= rest->end) return NULL;
    unsigned char head = *rest->from;
    if (head < 0x80 || head >= 0xe0) {
        rest->from++;
        return spelled_int64((signed char)head);
    }
    if (head < 0xcc || head > 0xd3) return NULL; /* uint 8 to 64, int 8 to 64 */
    int bytes = 1 << (head & 3), shift = 64 - 8 * bytes;
    if (rest->end - rest->from < 1 + bytes) return NULL;
    uint64_t number = parse(rest->from + 1, bytes);
    rest->from += 1 + bytes;
    return head < 0xd0 ? spelled(number, 0) : spelled_int64((int64_t)(number << shift) >> shift);
}

/* Reads an array of arguments; `is_command`: the first is a name, which has to be there and no integer; `is_exec`: each is
 * such a command. NULL without an error: Python must look at it. */
static PyObject *read_arguments(Rest *rest, int is_command, int is_exec)
{
    Py_ssize_t count = read_array(rest);
    if (count < is_command) return NULL;
    PyObject *args = PyList_New(count);
    if (args == NULL) return NULL;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *arg = is_exec ? read_arguments(rest, 1, 0) : read_string(rest);
        if (arg == NULL && !PyErr_Occurred() && !is_exec && !(is_command && i == 0)) arg = read_integer(rest);
        if (arg == NULL) {
            Py_DECREF(args);
            return NULL;
        }
        PyList_SET_ITEM(args, i, arg);
    }
    return args;
}

/* Reads what stands behind the arguments: the id, if there is one. NULL without an error: Python must look at it. */
static PyObject *read_id(Rest *rest, int is_there)
{
    PyObject *event_id = NULL;
    if (!is_there) return rest->from == rest->end ? Py_NewRef(Py_None) : NULL;
    if (rest->end - rest->from < 4 || memcmp(rest->from, "\xa2id", 3)) return NULL;
    rest->from += 3;
    event_id = read_string(rest);
    if (event_id != NULL && (rest->from != rest->end || !PyBytes_GET_SIZE(event_id) || PyBytes_GET_SIZE(event_id) > ID_BYTES_MAX))
        Py_CLEAR(event_id);
    return event_id;
}

/* The event of a record with the name of its head. NULL without an error: Python must look at it. */
static PyObject *read_event(PyObject *offset, PyObject *time_ms, PyObject *name, int is_exec, int has_id, Rest *rest)
{
    PyObject *event = NULL, *args = read_arguments(rest, 0, is_exec);
    PyObject *event_id = args == NULL ? NULL : read_id(rest, has_id);
    if (event_id != NULL) event = PyTuple_Pack(7, offset, time_ms, name, args, zero, event_id, Py_None);
    Py_XDECREF(args);
    Py_XDECREF(event_id);
    return event;
}

/* The heads that are known; that of the event before is that of most. */
typedef struct {
    PyObject *names, *exec; /* name by head; the name whose arguments are commands */
    PyObject *head, *name;  /* the last one, and its name, NULL: it has none */
    int is_exec;
} Heads;

/* The name of an event that begins so; NULL without an error: it is not known. A borrowed reference. */
static PyObject *name_of(Heads *heads, const char *from, Py_ssize_t size)
{
    if (heads->head != NULL && PyBytes_GET_SIZE(heads->head) == size && !memcmp(PyBytes_AS_STRING(heads->head) + 1, from + 1, size - 1))
        return heads->name;
    PyObject *head = PyBytes_FromStringAndSize(from, size);
    if (head == NULL) return NULL;
    PyBytes_AS_STRING(head)[0] = (char)MAP_OF_3;
    Py_XSETREF(heads->head, head);
    heads->name = PyDict_GetItemWithError(heads->names, head);
    if (heads->name != NULL && !PyBytes_CheckExact(heads->name)) heads->name = NULL;
    heads->is_exec = heads->name != NULL && PyObject_RichCompareBool(heads->name, heads->exec, Py_EQ) > 0;
    return heads->name;
}

/* The event in a record's value. NULL without an error: Python must look at it. */
static PyObject *decode_usual(Heads *heads, PyObject *offset, PyObject *time_ms, PyObject *value, Py_ssize_t size_max)
{
    if (!PyBytes_CheckExact(value) || PyBytes_GET_SIZE(value) <= NAME_AT || PyBytes_GET_SIZE(value) > size_max) return NULL;
    const char *from = PyBytes_AS_STRING(value);
    unsigned char fields = (unsigned char)*from;
    Py_ssize_t size = PyBytes_GET_SIZE(value), end = (unsigned char)from[NAME_AT] + HEAD_MORE;
    if ((fields != MAP_OF_3 && fields != MAP_OF_4) || end <= NAME_AT || end >= size) return NULL;
    PyObject *name = name_of(heads, from, end);
    if (name == NULL) return NULL;
    Rest rest = {(const unsigned char *)from + end, (const unsigned char *)from + size};
    return read_event(offset, time_ms, name, heads->is_exec, fields == MAP_OF_4, &rest);
}

PyObject *decode_run(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    if (count != 5 || !PyDict_CheckExact(given[1]) || !PyLong_CheckExact(given[2])) {
        PyErr_SetString(PyExc_TypeError, "decode_run(batch, heads, size_max, transaction, decode)");
        return NULL;
    }
    Heads heads = {given[1], given[3], NULL, NULL, 0};
    PyObject *decode = given[4];
    Py_ssize_t size_max = PyLong_AsSsize_t(given[2]);
    if (size_max < 0) return PyErr_Occurred() ? NULL : PyList_New(0);
    PyObject *batch = PySequence_Tuple(given[0]); /* a copy, which nobody else can change while `decode` runs */
    if (batch == NULL) return NULL;
    PyObject *events = PyList_New(PyTuple_GET_SIZE(batch));
    for (Py_ssize_t i = 0; events != NULL && i < PyTuple_GET_SIZE(batch); i++) {
        PyObject *record = PyTuple_GET_ITEM(batch, i), *event = NULL;
        if (!PyTuple_Check(record) || PyTuple_GET_SIZE(record) != 4)
            PyErr_SetString(PyExc_ValueError, "a record is no tuple of offset, time_ms, key and value");
        else {
            PyObject *offset = PyTuple_GET_ITEM(record, 0), *time_ms = PyTuple_GET_ITEM(record, 1);
            PyObject *value = PyTuple_GET_ITEM(record, 3);
            event = decode_usual(&heads, offset, time_ms, value, size_max);
            if (event == NULL && !PyErr_Occurred())
                event = PyObject_CallFunctionObjArgs(decode, offset, time_ms, value, NULL);
        }
        if (event == NULL) Py_CLEAR(events);
        else PyList_SET_ITEM(events, i, event);
    }
    Py_XDECREF(heads.head);
    Py_DECREF(batch);
    return events;
}
