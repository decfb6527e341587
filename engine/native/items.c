/* Makes items of a client's writes, and records of items: twin of the loops of `resp.clients.running.fast_path.write` and
 * `resp.writes.groups._apply_run`. */

#include "requests.h"

struct item_slots ITEM;
static const char *const ITEM_SLOTS[] = {"_muted", "args", "command", "data", "db", "entry", "event_id", "name", "offset", "plan",
    "session", "size", "spec", "watch_id", NULL};

PyTypeObject *item_type;
static PyTypeObject *entry_type;
static PyObject *no_headers, *minus_one;
static Py_ssize_t item_bytes, record_bytes_max, arguments_max;

PyObject *configure_items(PyObject *module, PyObject *args)
{
    PyTypeObject *item, *entry;
    Py_ssize_t bytes, record_max, count_max;
    if (!PyArg_ParseTuple(args, "O!O!nnn", &PyType_Type, &item, &PyType_Type, &entry, &bytes, &record_max, &count_max))
        return NULL;
    if (find_slots(item, ITEM_SLOTS, (Py_ssize_t *)&ITEM)) return NULL;
    if (item->tp_itemsize || item->tp_dictoffset || item->tp_weaklistoffset || entry->tp_base != &PyTuple_Type ||
        entry->tp_dictoffset || (item->tp_flags & (Py_TPFLAGS_MANAGED_DICT | Py_TPFLAGS_HAVE_GC)) != Py_TPFLAGS_HAVE_GC) {
        PyErr_SetString(PyExc_TypeError, "items have more than slots, or an entry is no tuple");
        return NULL;
    }
    if (no_headers == NULL) no_headers = PyTuple_New(0);
    if (minus_one == NULL) minus_one = PyLong_FromLong(-1);
    if (no_headers == NULL || minus_one == NULL) return NULL;
    Py_XSETREF(item_type, (PyTypeObject *)Py_NewRef((PyObject *)item));
    Py_XSETREF(entry_type, (PyTypeObject *)Py_NewRef((PyObject *)entry));
    item_bytes = bytes;
    record_bytes_max = record_max;
    arguments_max = count_max;
    Py_RETURN_NONE;
}

/* The value of an event: `head`, and the arguments behind the name as msgpack has them. NULL without an error: too large. */
static PyObject *pack_event(PyObject *head, PyObject *command)
{
    Py_ssize_t count = PyList_GET_SIZE(command) - 1, front = PyBytes_GET_SIZE(head);
    if (count > arguments_max) return NULL;
    int array = count < 16 ? 1 : count < 65536 ? 3 : 5;
    Py_ssize_t size = front + array;
    for (Py_ssize_t i = 1; i <= count; i++) {
        Py_ssize_t bytes = PyBytes_GET_SIZE(PyList_GET_ITEM(command, i));
        size += bin_header(NULL, bytes) + bytes;
        if (size > record_bytes_max) return NULL;
    }
    PyObject *value = PyBytes_FromStringAndSize(NULL, size);
    if (value == NULL) return NULL;
    char *to = PyBytes_AS_STRING(value);
    memcpy(to, PyBytes_AS_STRING(head), front);
    to += front;
    if (array == 1) *to = (char)(0x90 | count);
    else {
        *to = (char)(array == 3 ? 0xdc : 0xdd);
        pack(to + 1, (uint64_t)count, array - 1);
    }
    to += array;
    for (Py_ssize_t i = 1; i <= count; i++) {
        PyObject *arg = PyList_GET_ITEM(command, i);
        to += bin_header(to, PyBytes_GET_SIZE(arg));
        memcpy(to, PyBytes_AS_STRING(arg), PyBytes_GET_SIZE(arg));
        to += PyBytes_GET_SIZE(arg);
    }
    return value;
}

/* What is the same for the writes of a run; `partition`: they are in this one, -1: in any that is served. */
typedef struct {
    PyObject *session, *plan, *name, *head;
    Py_ssize_t first, least, most, partition, partitions;
    PyObject *served;
} Writes;

/* Whether a write to a partition may be taken. */
static int may_take(const Writes *writes, Py_ssize_t partition)
{
    return writes->served != NULL ? served_at(writes->served, partition) != NULL : partition == writes->partition;
}

/* NULL without an error: its partition takes the general way. */
static PyObject *make_entry(const Writes *writes, PyObject *key, PyObject *value)
{
    unsigned int slot = slot_of(PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key));
    Py_ssize_t partition = partition_of(slot, writes->partitions);
    if (!may_take(writes, partition)) return NULL;
    char bytes[2] = {(char)(slot >> 8), (char)slot};
    PyObject *slot_key = PyBytes_FromStringAndSize(bytes, 2), *number = PyLong_FromSsize_t(partition);
    PyObject *entry = slot_key == NULL || number == NULL ? NULL : entry_type->tp_alloc(entry_type, 5);
    if (entry == NULL) {
        Py_XDECREF(slot_key);
        Py_XDECREF(number);
        return NULL;
    }
    PyTuple_SET_ITEM(entry, 0, number);
    PyTuple_SET_ITEM(entry, 1, slot_key);
    PyTuple_SET_ITEM(entry, 2, Py_NewRef(value));
    PyTuple_SET_ITEM(entry, 3, Py_NewRef(Py_None));
    PyTuple_SET_ITEM(entry, 4, Py_NewRef(no_headers));
    return entry;
}

/* The item of one write. NULL without an error: it takes the general way. */
static PyObject *make_item(Writes *writes, PyObject *command, Py_ssize_t *size)
{
    Py_ssize_t count = PyList_GET_SIZE(command) - 1;
    if (count < writes->least || count > writes->most || writes->first >= count) return NULL;
    for (Py_ssize_t i = 1; i <= count; i++)
        if (!PyBytes_CheckExact(PyList_GET_ITEM(command, i))) return NULL;
    PyObject *value = pack_event(writes->head, command);
    if (value == NULL) return NULL;
    *size = item_bytes + PyBytes_GET_SIZE(value);
    PyObject *entry = make_entry(writes, PyList_GET_ITEM(command, 1 + writes->first), value);
    Py_DECREF(value);
    if (entry == NULL) return NULL;
    PyObject *args = PyList_GetSlice(command, 1, count + 1), *whole = PyLong_FromSsize_t(*size), *item = NULL;
    if (args != NULL && whole != NULL) item = item_type->tp_alloc(item_type, 0);
    if (item == NULL) {
        Py_DECREF(entry);
        Py_XDECREF(args);
        Py_XDECREF(whole);
        return NULL;
    }
    put_new(item, ITEM.muted, Py_False);
    put(item, ITEM.args, args);
    put_new(item, ITEM.command, command);
    put_new(item, ITEM.data, Py_None);
    put_new(item, ITEM.db, zero);
    put(item, ITEM.entry, entry);
    put_new(item, ITEM.event_id, Py_None);
    put_new(item, ITEM.name, writes->name);
    put_new(item, ITEM.offset, minus_one);
    put_new(item, ITEM.plan, writes->plan);
    put_new(item, ITEM.session, writes->session);
    put(item, ITEM.size, whole);
    put_new(item, ITEM.spec, Py_None);
    put_new(item, ITEM.watch_id, Py_None);
    return item;
}

PyObject *take_writes(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    if (count != 13 || item_type == NULL || !PyList_CheckExact(given[0]) || !is_bytes(given[5]) || !is_bytes(given[6])) {
        PyErr_SetString(PyExc_TypeError, "take_writes(commands, at, end, session, plan, name, head, first, least, most, free_bytes, partition, partitions)");
        return NULL;
    }
    PyObject *commands = given[0], *spelled = NULL;
    Py_ssize_t from = PyLong_AsSsize_t(given[1]), end = PyLong_AsSsize_t(given[2]), free_bytes = PyLong_AsSsize_t(given[10]);
    Writes writes = {given[3], given[4], given[5], given[6], PyLong_AsSsize_t(given[7]), PyLong_AsSsize_t(given[8]),
        PyLong_AsSsize_t(given[9]), PyLong_AsSsize_t(given[11]), PyLong_AsSsize_t(given[12]), NULL};
    if (PyErr_Occurred()) return NULL;
    if (from < 0 || writes.first < 0 || end > PyList_GET_SIZE(commands)) return PyErr_Format(PyExc_ValueError, "no such commands");
    PyObject *items = PyList_New(0);
    if (items == NULL) return NULL;
    for (Py_ssize_t at = from; at < end && free_bytes >= 0; at++) {
        PyObject *command = PyList_GET_ITEM(commands, at);
        if (!PyList_CheckExact(command) || !PyList_GET_SIZE(command) || !is_bytes(PyList_GET_ITEM(command, 0))) break;
        PyObject *word = PyList_GET_ITEM(command, 0);
        if (spelled == NULL) spelled = word;
        if (word != spelled && (PyBytes_GET_SIZE(word) != PyBytes_GET_SIZE(spelled) ||
                memcmp(PyBytes_AS_STRING(word), PyBytes_AS_STRING(spelled), PyBytes_GET_SIZE(word)))) break;
        Py_ssize_t size = 0;
        PyObject *item = make_item(&writes, command, &size);
        if (item == NULL) break;
        int failed = PyList_Append(items, item);
        Py_DECREF(item);
        if (failed) break;
        free_bytes -= size;
    }
    if (PyErr_Occurred()) {
        Py_DECREF(items);
        return NULL;
    }
    return Py_BuildValue("Nn", items, free_bytes);
}

/* What Plans.plain_writes has of a name: what is the same for the writes by it. 0: it is none of them, or an error. */
static int find_writes(PyObject *plain_writes, PyObject *name, Writes *writes)
{
    PyObject *found = PyDict_GetItemWithError(plain_writes, name);
    if (found == NULL || !PyTuple_CheckExact(found) || PyTuple_GET_SIZE(found) != 6) return 0;
    PyObject **of = &PyTuple_GET_ITEM(found, 0);
    if (!is_bytes(of[1]) || !is_bytes(of[2])) return 0;
    writes->plan = of[0], writes->name = of[1], writes->head = of[2];
    writes->first = PyLong_AsSsize_t(of[3]), writes->least = PyLong_AsSsize_t(of[4]), writes->most = PyLong_AsSsize_t(of[5]);
    return writes->first >= 0 && !PyErr_Occurred();
}

PyObject *take_data(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    if (count != 6 || item_type == NULL || !is_bytes(given[0]) || !is_dict(given[1]) || !PyTuple_CheckExact(given[5])) {
        PyErr_SetString(PyExc_TypeError, "take_data(data, plain_writes, session, count_max, most, served)");
        return NULL;
    }
    Py_ssize_t count_max = PyLong_AsSsize_t(given[3]), most = PyLong_AsSsize_t(given[4]), total = 0;
    PyObject *items = PyErr_Occurred() ? NULL : PyList_New(0), *name = NULL, *known = NULL, *command;
    if (items == NULL) return NULL;
    Writes writes = {.session = given[2], .partitions = PyTuple_GET_SIZE(given[5]), .served = given[5]};
    const char *begin = PyBytes_AS_STRING(given[0]), *end = begin + PyBytes_GET_SIZE(given[0]), *at = begin;
    while (at < end && PyList_GET_SIZE(items) < most) {
        const char *next = read_command(at, end, count_max, &name, &command);
        if (next == NULL) break;
        Py_ssize_t size = 0; /* `name` and `known` are borrowed from commands: those before are in items */
        PyObject *item = name == known || find_writes(given[1], name, &writes) ? make_item(&writes, command, &size) : NULL;
        known = name;
        Py_DECREF(command);
        int failed = item == NULL || PyList_Append(items, item) < 0;
        Py_XDECREF(item);
        if (failed) break;
        total += size;
        at = next;
    }
    if (PyErr_Occurred()) {
        Py_DECREF(items);
        return NULL;
    }
    return Py_BuildValue("Nnn", items, (Py_ssize_t)(at - begin), total);
}

PyObject *records_of(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    if (count != 2 || !PyList_CheckExact(given[0]) || !PyList_CheckExact(given[1])) {
        PyErr_SetString(PyExc_TypeError, "records_of(items, positions)");
        return NULL;
    }
    Py_ssize_t size = PyList_GET_SIZE(given[0]);
    if (item_type == NULL || size != PyList_GET_SIZE(given[1])) Py_RETURN_NONE;
    PyObject *records = PyList_New(size);
    if (records == NULL) return NULL;
    for (Py_ssize_t i = 0; i < size; i++) {
        PyObject *item = PyList_GET_ITEM(given[0], i), *position = PyList_GET_ITEM(given[1], i);
        if (Py_TYPE(item) != item_type || !PyTuple_Check(position) || PyTuple_GET_SIZE(position) != 3) {
            Py_DECREF(records);
            Py_RETURN_NONE;
        }
        const Py_ssize_t slots[] = {ITEM.name, ITEM.args, ITEM.db, ITEM.event_id, ITEM.watch_id};
        PyObject *record = PyTuple_New(7);
        if (record == NULL) {
            Py_DECREF(records);
            return NULL;
        }
        PyList_SET_ITEM(records, i, record);
        PyTuple_SET_ITEM(record, 0, Py_NewRef(PyTuple_GET_ITEM(position, 1)));
        PyTuple_SET_ITEM(record, 1, Py_NewRef(PyTuple_GET_ITEM(position, 2)));
        for (int field = 0; field < 5; field++) PyTuple_SET_ITEM(record, 2 + field, Py_NewRef(at(item, slots[field])));
        put_new(item, ITEM.offset, PyTuple_GET_ITEM(position, 1));
    }
    return records;
}
