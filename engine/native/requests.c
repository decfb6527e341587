/* Parses requests of RESP: twin of `Parser._take_fast_path` in resp/wire/protocol.py, for commands that are as they should. */

#include "requests.h"

enum { COUNT_DIGITS_MAX = 4, LENGTH_DIGITS_MAX = 9 };

/* Reads `mark`, a number without sign and leading zeros, and CRLF. Where it goes on; NULL: Python must look at it. */
static const char *read_header(const char *from, const char *end, char mark, int digits_max, Py_ssize_t *number)
{
    if (end - from < 4 || *from++ != mark || *from < '0' || *from > '9') return NULL;
    if (*from == '0' && from[1] != '\r') return NULL;
    const char *begin = from;
    for (*number = 0; from < end && *from >= '0' && *from <= '9'; from++) {
        if (from - begin == digits_max) return NULL;
        *number = 10 * *number + (*from - '0');
    }
    return end - from >= 2 && from[0] == '\r' && from[1] == '\n' ? from + 2 : NULL;
}

/* Whether it is how a HTTP request begins, or the header that each has: POST, Host: in any case. */
static int is_http(const char *from, Py_ssize_t size)
{
    const char *word = size == 4 ? "post" : size == 5 ? "host:" : NULL;
    if (word == NULL) return 0;
    for (Py_ssize_t i = 0; i < size; i++) {
        char letter = from[i] >= 'A' && from[i] <= 'Z' ? (char)(from[i] | 0x20) : from[i];
        if (letter != word[i]) return 0;
    }
    return 1;
}

/* Reads one command. Where it goes on; NULL: Python must look at it, if there is no error. */
const char *read_command(const char *from, const char *end, Py_ssize_t count_max, PyObject **name, PyObject **command)
{
    Py_ssize_t count, size;
    from = read_header(from, end, '*', COUNT_DIGITS_MAX, &count);
    if (from == NULL || count < 1 || count > count_max || count > (end - from) / 5) return NULL;
    PyObject *args = PyList_New(count);
    if (args == NULL) return NULL;
    for (Py_ssize_t i = 0; i < count; i++, from += size + 2) {
        from = read_header(from, end, '$', LENGTH_DIGITS_MAX, &size);
        if (from == NULL || size > end - from - 2 || from[size] != '\r' || from[size + 1] != '\n' || (i == 0 && is_http(from, size))) {
            Py_DECREF(args);
            return NULL;
        }
        PyObject *arg;
        if (i == 0 && *name != NULL && PyBytes_GET_SIZE(*name) == size && !memcmp(PyBytes_AS_STRING(*name), from, size))
            arg = Py_NewRef(*name); /* that of the command before */
        else arg = PyBytes_FromStringAndSize(from, size);
        if (arg == NULL) {
            Py_DECREF(args);
            return NULL;
        }
        if (i == 0) *name = arg;
        PyList_SET_ITEM(args, i, arg);
    }
    *command = args;
    return from;
}

PyObject *parse_commands(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    Py_ssize_t count_max = count == 3 && PyLong_CheckExact(given[2]) ? PyLong_AsSsize_t(given[2]) : -1;
    if (count_max < 0 || !PyBytes_CheckExact(given[0]) || !PyList_CheckExact(given[1])) {
        PyErr_SetString(PyExc_TypeError, "parse_commands(data, commands, count_max)");
        return NULL;
    }
    const char *begin = PyBytes_AS_STRING(given[0]), *end = begin + PyBytes_GET_SIZE(given[0]), *at = begin;
    PyObject *name = NULL, *command = NULL; /* `name` is borrowed from a command in the list */
    while (at < end) {
        const char *next = read_command(at, end, count_max, &name, &command);
        if (next == NULL) break;
        int failed = PyList_Append(given[1], command);
        Py_DECREF(command);
        if (failed) return NULL;
        at = next;
    }
    return PyErr_Occurred() ? NULL : PyLong_FromSsize_t(at - begin);
}
