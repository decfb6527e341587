/* Fills the places of replies, and answers GET from memory: twin of `PendingReply.answer`, `Output._take_filled` and
 * `resp.clients.running.fast_path.read`, for replies that are as usual. */

#include "requests.h"

static PyObject *ok_reply, *encoded_ok, *nulls[2], *small_integers[258]; /* from -2 on */
static PyObject *name_data, *name_popleft, *name_clock, *name_encode, *name_output, *name_pending_bytes, *name_last_position, *name_is_held;
enum { SMALL_MIN = -2, SMALL_END = 256, STRINGS_MAX = 64 };

int init_requests(void)
{
    encoded_ok = PyBytes_FromString("+OK\r\n");
    nulls[0] = PyBytes_FromString("$-1\r\n");
    nulls[1] = PyBytes_FromString("_\r\n");
    name_data = PyUnicode_InternFromString("data");
    name_popleft = PyUnicode_InternFromString("popleft");
    name_clock = PyUnicode_InternFromString("clock_ms");
    name_encode = PyUnicode_InternFromString("encode");
    name_output = PyUnicode_InternFromString("output");
    name_pending_bytes = PyUnicode_InternFromString("pending_reply_bytes");
    name_last_position = PyUnicode_InternFromString("last_position");
    name_is_held = PyUnicode_InternFromString("is_held");
    if (!name_encode || !name_output || !name_pending_bytes || !name_last_position || !name_is_held) return FAILED;
    if (!encoded_ok || !nulls[0] || !nulls[1] || !name_data || !name_popleft || !name_clock) return FAILED;
    for (int number = SMALL_MIN; number < SMALL_END; number++)
        if ((small_integers[number - SMALL_MIN] = PyBytes_FromFormat(":%d\r\n", number)) == NULL) return FAILED;
    return DONE;
}

/* A usual reply as bytes, a new reference. NULL without an error: Python has to encode it. */
static PyObject *encode(PyObject *reply, int is_resp3)
{
    if (reply == ok_reply) return Py_NewRef(encoded_ok);
    if (reply == Py_None) return Py_NewRef(nulls[is_resp3]);
    if (PyBytes_CheckExact(reply)) {
        const char *text = PyBytes_AS_STRING(reply);
        Py_ssize_t size = PyBytes_GET_SIZE(reply);
        PyObject *bulk = PyBytes_FromStringAndSize(NULL, write_bulk(NULL, text, size));
        if (bulk != NULL) write_bulk(PyBytes_AS_STRING(bulk), text, size);
        return bulk;
    }
    int64_t number;
    if (!as_int64(reply, &number)) return NULL;
    if (number >= SMALL_MIN && number < SMALL_END) return Py_NewRef(small_integers[number - SMALL_MIN]);
    return PyBytes_FromFormat(":%zd\r\n", (Py_ssize_t)number);
}

/* A session whose writes are being answered, and what has come together of it. */
typedef struct {
    PyObject *session, *output; /* borrowed from an item, and owned */
    PyObject *entry, *offset;   /* of its last write, borrowed */
    int is_resp3;
    int64_t bytes; /* of all its replies that wait to be sent */
} Recipient;

/* Begins with another session. UNUSUAL: nobody, or an encoding of its own. */
static int begin_recipient(Recipient *to, PyObject *session, PyObject *const *encodings)
{
    *to = (Recipient){.session = session};
    PyObject *encoding = PyObject_GetAttr(session, name_encode);
    if (encoding == NULL) return FAILED;
    to->is_resp3 = encoding == encodings[1];
    int known = to->is_resp3 || encoding == encodings[0];
    Py_DECREF(encoding);
    if (!known) return UNUSUAL;
    PyObject *output = PyObject_GetAttr(session, name_output);
    PyObject *bytes = output == NULL ? NULL : PyObject_GetAttr(output, name_pending_bytes);
    known = as_int64(bytes, &to->bytes);
    Py_XDECREF(bytes);
    if (known) to->output = output;
    else Py_XDECREF(output);
    return known ? DONE : PyErr_Occurred() ? FAILED : UNUSUAL;
}

/* Tells the session what was answered, if anything was. */
static int end_recipient(Recipient *to, PyObject *ready)
{
    PyObject *output = to->output, *bytes = NULL, *position = NULL;
    to->output = NULL;
    int failed = 0;
    if (output != NULL && to->entry != NULL) {
        bytes = PyLong_FromLongLong(to->bytes);
        position = PyTuple_Pack(2, PyTuple_GET_ITEM(to->entry, 0), to->offset);
        failed = bytes == NULL || position == NULL || PyObject_SetAttr(output, name_pending_bytes, bytes) < 0 ||
                 PyObject_SetAttr(to->session, name_last_position, position) < 0 || PyDict_SetItem(ready, to->session, Py_None) < 0;
    }
    Py_XDECREF(bytes);
    Py_XDECREF(position);
    Py_XDECREF(output);
    return failed ? FAILED : DONE;
}

/* Fills the place of one write, of this plan. */
static int answer_write(PyObject *pair, PyObject *plan, PyObject *const *given, int64_t large, Recipient *to)
{
    if (!PyTuple_CheckExact(pair) || PyTuple_GET_SIZE(pair) != 2) return UNUSUAL;
    PyObject *item = PyTuple_GET_ITEM(pair, 0);
    if (Py_TYPE(item) != item_type || at(item, ITEM.muted) != Py_False || at(item, ITEM.plan) != plan) return UNUSUAL;
    PyObject *entry = at(item, ITEM.entry);
    int64_t offset;
    if (entry == NULL || !PyTuple_Check(entry) || PyTuple_GET_SIZE(entry) != 5) return UNUSUAL; /* as None: it reads */
    if (!as_int64(at(item, ITEM.offset), &offset) || offset < 0) return UNUSUAL;
    if (at(item, ITEM.session) != to->session || to->output == NULL) {
        int done = end_recipient(to, given[5]) == FAILED ? FAILED : begin_recipient(to, at(item, ITEM.session), given + 3);
        if (done != DONE) return done;
    }
    PyObject *data = encode(PyTuple_GET_ITEM(pair, 1), to->is_resp3);
    if (data == NULL) return PyErr_Occurred() ? FAILED : UNUSUAL;
    if (to->bytes + PyBytes_GET_SIZE(data) > large) {
        Py_DECREF(data);
        return UNUSUAL;
    }
    to->bytes += PyBytes_GET_SIZE(data);
    to->entry = entry;
    to->offset = at(item, ITEM.offset);
    put(item, ITEM.data, data);
    return DONE;
}

PyObject *answer_writes(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    int64_t large;
    if (count != 7 || item_type == NULL || !PyList_CheckExact(given[0]) || !is_dict(given[5]) || !as_int64(given[6], &large)) {
        PyErr_SetString(PyExc_TypeError, "answer_writes(replies, at, ok, encode2, encode3, ready, large)");
        return NULL;
    }
    Py_ssize_t from = PyLong_AsSsize_t(given[1]), end = from;
    if (PyErr_Occurred()) return NULL;
    Py_XSETREF(ok_reply, Py_NewRef(given[2]));
    Recipient to = {NULL};
    PyObject *plan = NULL;
    int done = DONE;
    for (; from >= 0 && end < PyList_GET_SIZE(given[0]); end++) {
        PyObject *pair = PyList_GET_ITEM(given[0], end);
        if (end == from && PyTuple_CheckExact(pair) && PyTuple_GET_SIZE(pair) == 2 && Py_TYPE(PyTuple_GET_ITEM(pair, 0)) == item_type)
            plan = at(PyTuple_GET_ITEM(pair, 0), ITEM.plan);
        done = answer_write(pair, plan, given, large, &to);
        if (done != DONE) break;
    }
    if (end_recipient(&to, given[5]) == FAILED || done == FAILED) return NULL;
    return PyLong_FromSsize_t(end);
}

PyObject *take_filled(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    if (count != 2 || !PyList_CheckExact(given[1])) {
        PyErr_SetString(PyExc_TypeError, "take_filled(places, parts)");
        return NULL;
    }
    Py_ssize_t left = PyObject_Size(given[0]), size = 0;
    for (; left > 0; left--) {
        PyObject *place = PySequence_GetItem(given[0], 0);
        if (place == NULL) return NULL;
        PyObject *data = Py_TYPE(place) == item_type ? Py_XNewRef(at(place, ITEM.data)) : PyObject_GetAttr(place, name_data);
        Py_DECREF(place);
        if (data == Py_None) {
            Py_DECREF(data);
            break;
        }
        int failed = data == NULL || !PyBytes_Check(data) || PyList_Append(given[1], data) < 0;
        if (!failed) size += PyBytes_GET_SIZE(data);
        Py_XDECREF(data);
        PyObject *gone = failed ? NULL : PyObject_CallMethodNoArgs(given[0], name_popleft);
        if (gone == NULL) {
            if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "a reply is not bytes");
            return NULL;
        }
        Py_DECREF(gone);
    }
    return left < 0 ? NULL : PyLong_FromSsize_t(size);
}

/* What GET answers of a key: its value, None, or NULL: Python must look at it. A borrowed reference. */
static PyObject *string_of(PyObject *key, int64_t latest_ms)
{
    int64_t expire_ms;
    int type = plain_code(key);
    if (type != NONE && type != STRING) return NULL;
    if (!as_int64(at(key, KEY.expire_ms), &expire_ms) || (expire_ms != 0 && expire_ms <= latest_ms)) return NULL;
    if (type == NONE) return Py_None;
    return is_bytes(at(key, KEY.value)) ? at(key, KEY.value) : NULL;
}

/* The latest of two clocks; -1: they are none. */
static int64_t latest_of(Path *path, PyObject *wall)
{
    int64_t clock_ms = -1, wall_ms;
    PyObject *clock = PyObject_GetAttr(path->executor, name_clock);
    if (clock == NULL) return -1;
    if (!as_int64(clock, &clock_ms) || !as_int64(wall, &wall_ms) || clock_ms < 0) clock_ms = -1;
    else if (wall_ms > clock_ms) clock_ms = wall_ms;
    Py_DECREF(clock);
    return clock_ms;
}

/* Goes on with what a machine has in memory. */
static int begin_path(Reader *reader, PyObject *machine, PyObject *path)
{
    PyObject *held = PyObject_GetAttr(machine, name_is_held);
    if (held == NULL) return FAILED;
    Py_DECREF(held);
    if (held != Py_False || Py_TYPE(path) != &PathType) return UNUSUAL;
    PyObject *tx = ((Path *)path)->tx, *keys = at(tx, TX.keys);
    if (at(tx, TX.db) != zero || !is_dict(keys)) return UNUSUAL;
    reader->path = (Path *)path;
    reader->keys = keys;
    reader->latest_ms = latest_of(reader->path, reader->wall);
    return reader->latest_ms >= 0 ? DONE : PyErr_Occurred() ? FAILED : UNUSUAL;
}

int go_to(Reader *reader, PyObject *key)
{
    Py_ssize_t partitions = PyTuple_GET_SIZE(reader->served), partition = 0;
    if (partitions > 1) partition = partition_of(slot_of(PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key)), partitions);
    if (partition == reader->partition) return DONE;
    PyObject *one = served_at(reader->served, partition);
    int done = one == NULL ? UNUSUAL : begin_path(reader, PyTuple_GET_ITEM(one, SERVED_MACHINE), PyTuple_GET_ITEM(one, SERVED_PATH));
    reader->partition = done == DONE ? partition : -1;
    return done;
}

/* The value for which `command` asks, by this name; None, or NULL without an error: Python must look at it. Borrowed. */
static PyObject *asked_for(Reader *reader, PyObject *command, PyObject *name)
{
    if (!PyList_CheckExact(command) || PyList_GET_SIZE(command) != 2) return NULL;
    PyObject *word = PyList_GET_ITEM(command, 0), *asked = PyList_GET_ITEM(command, 1);
    if (!is_bytes(word) || !is_bytes(asked)) return NULL;
    if (word != name && (PyBytes_GET_SIZE(word) != PyBytes_GET_SIZE(name) ||
            memcmp(PyBytes_AS_STRING(word), PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name)))) return NULL;
    if (go_to(reader, asked) != DONE) return NULL;
    PyObject *key = PyDict_GetItemWithError(reader->keys, asked);
    return key == NULL ? NULL : string_of(key, reader->latest_ms);
}

PyObject *read_run(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    if (count != 7 || !PyTuple_CheckExact(given[0]) || !PyList_CheckExact(given[2]) || !PyList_CheckExact(given[6])) {
        PyErr_SetString(PyExc_TypeError, "read_run(served, kind, commands, at, wall_ms, is_resp3, parts)");
        return NULL;
    }
    PyObject *commands = given[2], *values[STRINGS_MAX], *null = nulls[given[5] == Py_True];
    Py_ssize_t kind = PyLong_AsSsize_t(given[1]), from = PyLong_AsSsize_t(given[3]), size = 0, found = 0, hits = 0;
    if (PyErr_Occurred()) return NULL;
    if (from < 0 || from >= PyList_GET_SIZE(commands) || kind < 0 || kind >= READS_END) return Py_BuildValue("nnn", from, hits, size);
    Reader reader = {.served = given[0], .wall = given[4], .null = null, .partition = -1};
    if (kind != READS_GET) return read_elements(&reader, (int)kind, commands, from, given[6]);
    PyObject *first = PyList_GET_ITEM(commands, from);
    PyObject *name = PyList_CheckExact(first) && PyList_GET_SIZE(first) ? PyList_GET_ITEM(first, 0) : NULL;
    for (; is_bytes(name) && found < STRINGS_MAX && from + found < PyList_GET_SIZE(commands); found++) {
        PyObject *value = asked_for(&reader, PyList_GET_ITEM(commands, from + found), name);
        if (value == NULL) break;
        values[found] = value; /* it stays where it is: nothing of Python's runs before it is copied */
        if (value != Py_None) hits++;
        size += value == Py_None ? PyBytes_GET_SIZE(null) : write_bulk(NULL, NULL, PyBytes_GET_SIZE(value));
    }
    if (PyErr_Occurred()) return NULL;
    PyObject *data = found ? PyBytes_FromStringAndSize(NULL, size) : NULL;
    if (data != NULL) {
        char *to = PyBytes_AS_STRING(data);
        for (Py_ssize_t i = 0; i < found; i++) {
            if (values[i] != Py_None) to += write_bulk(to, PyBytes_AS_STRING(values[i]), PyBytes_GET_SIZE(values[i]));
            else {
                memcpy(to, PyBytes_AS_STRING(null), PyBytes_GET_SIZE(null));
                to += PyBytes_GET_SIZE(null);
            }
        }
        if (PyList_Append(given[6], data) < 0) Py_CLEAR(data);
    }
    if (found && data == NULL) return NULL;
    Py_XDECREF(data);
    return Py_BuildValue("nnn", from + found, hits, size);
}
