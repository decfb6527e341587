/* Turns records of a log into events: twin of `slotlog.events.decode`. */

#include "hot.h"

enum { NAME_AT = 8, HEAD_MORE = 9 + 5 - 0xa0 }; /* where a head has the header of its name, and how long it is beside that */

/* The arguments in the packed array that is all of `from … end`; NULL without an error: Python must look at it. */
static PyObject *decode_arguments(const unsigned char *from, const unsigned char *end)
{
    if (from >= end) return NULL;
    Py_ssize_t count;
    if ((*from & 0xf0) == 0x90) count = *from++ & 0x0f;
    else if (*from == 0xdc && end - from >= 3) { count = (Py_ssize_t)parse(from + 1, 2); from += 3; }
    else return NULL;
    if (count > end - from) return NULL;
    PyObject *args = PyList_New(count);
    if (args == NULL) return NULL;
    for (Py_ssize_t i = 0; i < count; i++) {
        if (from >= end) goto unusual;
        unsigned char head = *from++;
        PyObject *arg;
        int bytes;
        if (head < 0x80 || head >= 0xe0) arg = spelled_int64((signed char)head);
        else if (head >= 0xcc && head <= 0xd3) { /* uint 8 to 64, int 8 to 64 */
            bytes = 1 << (head & 3);
            if (end - from < bytes) goto unusual;
            uint64_t number = parse(from, bytes);
            from += bytes;
            if (head < 0xd0) arg = spelled(number, 0);
            else {
                int shift = 64 - 8 * bytes;
                arg = spelled_int64((int64_t)(number << shift) >> shift);
            }
        }
        else {
            Py_ssize_t size;
            if ((head & 0xe0) == 0xa0) size = head & 0x1f;
            else {
                if (head == 0xc4 || head == 0xd9) bytes = 1;
                else if (head == 0xc5 || head == 0xda) bytes = 2;
                else goto unusual;
                if (end - from < bytes) goto unusual;
                size = (Py_ssize_t)parse(from, bytes);
                from += bytes;
            }
            if (end - from < size) goto unusual;
            arg = PyBytes_FromStringAndSize((const char *)from, size);
            from += size;
        }
        if (arg == NULL) {
            Py_DECREF(args);
            return NULL;
        }
        PyList_SET_ITEM(args, i, arg);
    }
    if (from == end) return args;
unusual:
    Py_DECREF(args);
    return NULL;
}

PyObject *decode_run(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    if (count != 5 || !PyDict_CheckExact(given[1]) || !PyLong_CheckExact(given[2])) {
        PyErr_SetString(PyExc_TypeError, "decode_run(batch, heads, size_max, transaction, decode)");
        return NULL;
    }
    PyObject *heads = given[1], *transaction = given[3], *decode = given[4];
    Py_ssize_t size_max = PyLong_AsSsize_t(given[2]);
    if (size_max < 0) return PyErr_Occurred() ? NULL : PyList_New(0);
    PyObject *batch = PySequence_Tuple(given[0]); /* a copy, which nobody else can change while `decode` runs */
    if (batch == NULL) return NULL;
    PyObject *events = PyList_New(PyTuple_GET_SIZE(batch));
    PyObject *last_head = NULL, *last_name = NULL; /* most events of a run have the head of the one before */
    for (Py_ssize_t i = 0; events != NULL && i < PyTuple_GET_SIZE(batch); i++) {
        PyObject *record = PyTuple_GET_ITEM(batch, i), *event = NULL;
        if (!PyTuple_Check(record) || PyTuple_GET_SIZE(record) != 4) {
            PyErr_SetString(PyExc_ValueError, "a record is no tuple of offset, time_ms, key and value");
            goto failed;
        }
        PyObject *offset = PyTuple_GET_ITEM(record, 0), *time_ms = PyTuple_GET_ITEM(record, 1);
        PyObject *value = PyTuple_GET_ITEM(record, 3);
        if (PyBytes_CheckExact(value) && PyBytes_GET_SIZE(value) > NAME_AT && PyBytes_GET_SIZE(value) <= size_max) {
            const char *from = PyBytes_AS_STRING(value);
            Py_ssize_t size = PyBytes_GET_SIZE(value), end = (unsigned char)from[NAME_AT] + HEAD_MORE;
            if (end > NAME_AT && end < size) {
                if (last_head == NULL || PyBytes_GET_SIZE(last_head) != end || memcmp(PyBytes_AS_STRING(last_head), from, end)) {
                    PyObject *head = PyBytes_FromStringAndSize(from, end);
                    if (head == NULL) goto failed;
                    last_name = PyDict_GetItemWithError(heads, head);
                    Py_XSETREF(last_head, head);
                    if (last_name == NULL && PyErr_Occurred()) goto failed;
                    if (last_name != NULL && (!PyBytes_CheckExact(last_name) || PyObject_RichCompareBool(last_name, transaction, Py_EQ)))
                        last_name = NULL;
                }
                if (last_name != NULL) {
                    PyObject *args = decode_arguments((const unsigned char *)from + end, (const unsigned char *)from + size);
                    if (args == NULL && PyErr_Occurred()) goto failed;
                    if (args != NULL) {
                        event = PyTuple_Pack(7, offset, time_ms, last_name, args, zero, Py_None, Py_None);
                        Py_DECREF(args);
                        if (event == NULL) goto failed;
                    }
                }
            }
        }
        if (event == NULL) event = PyObject_CallFunctionObjArgs(decode, offset, time_ms, value, NULL);
        if (event == NULL) goto failed;
        PyList_SET_ITEM(events, i, event);
    }
    Py_XDECREF(last_head);
    Py_DECREF(batch);
    return events;
failed:
    Py_XDECREF(last_head);
    Py_DECREF(batch);
    Py_XDECREF(events);
    return NULL;
}

