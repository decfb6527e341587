/* Applies one record: twin of `Executor.apply`, where nobody looks at what commands change. */

#include "hot.h"

static PyObject *name_exec, *name_duplicates, *name_finish;

int init_records(void)
{
    name_exec = PyBytes_FromString("EXEC");
    name_duplicates = PyUnicode_InternFromString("duplicates");
    name_finish = PyUnicode_InternFromString("finish_transaction");
    return name_exec == NULL || name_duplicates == NULL || name_finish == NULL ? FAILED : DONE;
}

/* Whether a key belongs to this partition, and its slot. */
static inline int is_at_home(Path *path, PyObject *name, unsigned int *slot)
{
    if (path->partitions == 1) return 1;
    *slot = slot_of(PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name));
    return (uint64_t)*slot * path->partitions / 16384 == path->partition;
}

/* Whether a command of this name runs in C with the arguments in `args` from `from` on. */
static int is_usual(Path *path, PyObject *name, PyObject *args, Py_ssize_t from, Command **command, unsigned int *slot)
{
    int found = find_command(name, command);
    if (found != DONE) return found;
    Py_ssize_t count = PyList_GET_SIZE(args) - from;
    if (count < (*command)->least || count > (*command)->most) return UNUSUAL;
    for (Py_ssize_t i = from; i < from + count; i++)
        if (!is_bytes(PyList_GET_ITEM(args, i))) return UNUSUAL;
    return is_at_home(path, PyList_GET_ITEM(args, from), slot) ? DONE : UNUSUAL;
}

/* Whether an EXEC has such commands alone, with keys of one slot. */
static int is_usual_transaction(Path *path, PyObject *steps)
{
    unsigned int slot = 0, first = 0;
    Command *command;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(steps); i++) {
        PyObject *step = PyList_GET_ITEM(steps, i);
        if (!PyList_CheckExact(step) || !PyList_GET_SIZE(step)) return UNUSUAL;
        int usual = is_usual(path, PyList_GET_ITEM(step, 0), step, 1, &command, &slot);
        if (usual != DONE) return usual;
        if (i == 0) first = slot;
        else if (slot != first) return UNUSUAL;
    }
    return DONE;
}

static int run_command(Run *run, Command *command, PyObject *args, Py_ssize_t from, PyObject **reply)
{
    Call call = {run, run->path->tx, ((PyListObject *)args)->ob_item + from, NULL, PyList_GET_SIZE(args) - from, NONE};
    int done = command->run(&call, reply);
    Py_XDECREF(call.key);
    if (done == DONE) run->by_command[command - commands]++;
    return done;
}

/* The rest of a transaction, from the command that is unusual on; the replies to those before it are in the list. */
static int finish_in_python(Run *run, PyObject *offset, PyObject *steps, PyObject *replies)
{
    PyObject *nothing =
        tell(run) == FAILED ? NULL : PyObject_CallMethodObjArgs(run->path->executor, name_finish, offset, steps, replies, run->applied, NULL);
    Py_XDECREF(nothing);
    return nothing == NULL ? FAILED : DONE;
}

static int run_transaction(Run *run, PyObject *offset, PyObject *steps, PyObject **reply)
{
    int done = DONE;
    PyObject *replies = PyList_New(0);
    if (replies == NULL) return FAILED;
    for (Py_ssize_t i = 0; done == DONE && i < PyList_GET_SIZE(steps); i++) {
        PyObject *step = PyList_GET_ITEM(steps, i), *its_reply = NULL;
        Command *command;
        done = find_command(PyList_GET_ITEM(step, 0), &command);
        if (done == DONE) done = run_command(run, command, step, 1, &its_reply);
        if (done == DONE && PyList_Append(replies, its_reply) < 0) done = FAILED;
        Py_XDECREF(its_reply);
    }
    if (done == UNUSUAL) done = finish_in_python(run, offset, steps, replies);
    if (done == DONE) *reply = replies;
    else Py_DECREF(replies);
    return done;
}

/* One delivery more of an event that was applied before. */
static int count_duplicate(Run *run)
{
    PyObject *old = PyObject_GetAttr(run->applied, name_duplicates), *more = old == NULL ? NULL : PyNumber_Add(old, codes[1]);
    int failed = more == NULL || PyObject_SetAttr(run->applied, name_duplicates, more) < 0;
    Py_XDECREF(old);
    Py_XDECREF(more);
    return failed ? FAILED : DONE;
}

/* Applies one record; see the enum for what it returns. */
int apply_record(Run *run, PyObject *record)
{
    if (!PyTuple_CheckExact(record) || PyTuple_GET_SIZE(record) != 7) return UNUSUAL;
    PyObject *tx = run->path->tx, **of = &PyTuple_GET_ITEM(record, 0), *offset = of[0], *name = of[2], *args = of[3], *event_id = of[5];
    if (of[4] != zero || of[6] != Py_None || !is_bytes(name) || !PyList_CheckExact(args)) return UNUSUAL;
    if (event_id != Py_None && !(is_bytes(event_id) && run->has_ids)) return UNUSUAL;
    int64_t time_ms;
    if (!PyLong_CheckExact(offset) || !as_int64(of[1], &time_ms) || time_ms < 0 || time_ms > run->path->time_max) return UNUSUAL;
    unsigned int slot;
    Command *command = NULL;
    int is_exec = PyObject_RichCompareBool(name, name_exec, Py_EQ);
    int done = is_exec ? is_usual_transaction(run->path, args) : is_usual(run->path, name, args, 0, &command, &slot);
    if (done != DONE) return done;
    if (at(tx, TX.db) != zero || !is_dict(at(tx, TX.keys)) || !is_dict(at(tx, TX.counts))) return UNUSUAL;
    if (begin(run, offset, of[1], time_ms) == FAILED) return FAILED;
    PyObject *reply = NULL;
    int seen = event_id == Py_None ? NEW : look_up_id(run, event_id, &reply);
    if (seen == FAILED) return FAILED;
    if (seen == SEEN) done = count_duplicate(run);
    else {
        done = is_exec ? run_transaction(run, offset, args, &reply) : run_command(run, command, args, 0, &reply);
        if (event_id != Py_None) {
            if (done == DONE) done = remember_id(run, event_id, offset, reply);
            else if (done == UNUSUAL && note_new_id(run, offset) == FAILED) done = FAILED;
        }
    }
    if (done == DONE && run->waiting != NULL) {
        int waits = PySequence_Contains(run->waiting, offset);
        if (waits < 0 || (waits && PyDict_SetItem(run->outcomes, offset, reply) < 0)) done = FAILED;
    }
    Py_XDECREF(reply);
    return done;
}
