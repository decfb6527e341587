/* Takes what a client has sent as far as it is usual, and sends the replies that it has waited for: twin of
 * `Connection.data_received` and `Session.flush`, for one read of a key in memory, and for writes with one key.
 *
 * It looks first and changes nothing before all is known to be usual, but for the read clock, which Python looks at anew. */

#include "clients.h"

static PyObject *name_append, *name_clear, *name_closing, *name_ended_reads, *name_extend, *name_flush, *name_on_submitted,
    *name_owns_until, *name_ready, *name_schedule, *name_wall_ms, *name_waiting, *name_write;

/* ------------------------------------------------------------------------------------------------------ the path itself */

typedef struct {
    PyObject_HEAD
    PyObject *server, *stats, *accounting, *served, *by_spelling, *plain_writes, *now_ms, *monotonic, *encode3;
    PyObject *count_max, *items_max; /* as take_data takes them */
    Py_ssize_t data_bytes_max, pending_replies_max, ahead_bytes, pending_events_max, pending_bytes_max, sent_bytes_max, mean_bytes_max,
        window_max;
    double run_seconds, looked_at; /* of the monotonic clock, when writes have looked at the read clock */
} ClientPath;

enum { REFERENCES = 11, REPLIES_MAX = 64 };
static const double CLOCK_SECONDS = 0.001; /* that clock is one of milliseconds: a look at it is a call of Python */

/* The monotonic clock that it was given, in seconds. */
static int look_at_seconds(ClientPath *self, double *seconds)
{
    PyObject *now = PyObject_CallNoArgs(self->monotonic);
    if (now == NULL) return FAILED;
    *seconds = PyFloat_AsDouble(now);
    Py_DECREF(now);
    return *seconds == -1.0 && PyErr_Occurred() ? FAILED : DONE;
}

static Py_ssize_t length(PyObject *object) { return object == NULL ? -1 : PyObject_Size(object); }

/* Whether nothing of the session waits that could change what its bytes mean, or when they are run. */
static int is_usual(ClientPath *self, PyObject *session, PyObject *data, double now)
{
    if (!is_type(session, SESSIONS) || at(session, SESSION.closing) != Py_False || at(session, SESSION.plain) != Py_True ||
        at(session, SESSION.db) != zero || at(session, SESSION.query_bytes) != zero || !is_bytes(data) || PyBytes_GET_SIZE(data) > self->data_bytes_max)
        return UNUSUAL;
    PyObject *parser = at(session, SESSION.parser), *inbox = at(session, SESSION.inbox), *output = at(session, SESSION.output);
    if (!is_type(parser, PARSERS) || at(parser, PARSER.authenticated) != Py_True || at(parser, PARSER.is_between) != Py_True)
        return UNUSUAL;
    if (!is_type(inbox, INBOXES) || at(inbox, INBOX.fiber) != Py_None || length(at(inbox, INBOX.backlog)) != 0) return UNUSUAL;
    if (!is_type(output, OUTPUTS) || length(at(output, OUTPUT.pushes)) != 0) return UNUSUAL;
    PyObject *until = PyObject_GetAttr(self->server, name_owns_until);
    if (until == NULL) return FAILED;
    int owns = PyFloat_CheckExact(until) && now <= PyFloat_AS_DOUBLE(until);
    Py_DECREF(until);
    return owns ? DONE : UNUSUAL;
}

static int look_at_clock(ClientPath *self, PyObject **wall)
{
    *wall = PyObject_CallNoArgs(self->now_ms);
    return *wall == NULL || PyObject_SetAttr(self->server, name_wall_ms, *wall) < 0 ? FAILED : DONE;
}

/* What each lot of bytes counts, all of which was taken or only its beginning. */
static int count_bytes(ClientPath *self, PyObject *session, Py_ssize_t taken, Py_ssize_t commands, int is_all, double now)
{
    if (set_seconds(session, SESSION.last_active, now) != DONE || add(session, SESSION.received_bytes, taken) != DONE ||
        add(session, SESSION.received_commands, commands) != DONE || add(self->stats, STATS.net_input_bytes, taken) != DONE)
        return FAILED;
    return is_all ? add(self->stats, STATS.reads_processed, 1) : DONE;
}

/* Hands little to a socket that takes it; UNUSUAL: Python is to look at the limits. */
static int send(ClientPath *self, PyObject *output, PyObject *data)
{
    PyObject *transport = at(output, OUTPUT.transport);
    if (PyBytes_GET_SIZE(data) > self->sent_bytes_max) return UNUSUAL;
    PyObject *closing = PyObject_CallMethodNoArgs(transport, name_closing);
    PyObject *waiting = closing == Py_False ? PyObject_CallMethodNoArgs(transport, name_waiting) : NULL;
    int64_t bytes = -1;
    int fits = waiting != NULL && as_int64(waiting, &bytes) && bytes + PyBytes_GET_SIZE(data) <= self->sent_bytes_max;
    Py_XDECREF(closing);
    Py_XDECREF(waiting);
    if (!fits) return PyErr_Occurred() ? FAILED : UNUSUAL;
    PyObject *written = PyObject_CallMethodOneArg(transport, name_write, data);
    if (written == NULL) return FAILED;
    Py_DECREF(written);
    if (add(self->stats, STATS.net_output_bytes, PyBytes_GET_SIZE(data)) != DONE ||
        add(self->stats, STATS.writes_processed, 1) != DONE)
        return FAILED;
    return add(output, OUTPUT.sent_bytes, PyBytes_GET_SIZE(data));
}

static int flush(PyObject *of)
{
    PyObject *flushed = PyObject_CallMethodNoArgs(of, name_flush);
    Py_XDECREF(flushed);
    return flushed == NULL ? FAILED : DONE;
}

/* ---------------------------------------------------------------------------------------------------------------- reads */

/* As `Accounting.ended_reads` of one. */
static int count_read(ClientPath *self, PyObject *session, PyObject *plan, PyObject *command, PyObject *hits, double seconds)
{
    PyObject *counted = at(plan, PLAN.counted), *slow = at(self->accounting, ACCOUNTING.slow_seconds);
    if (!is_type(counted, PLANS) || !PyFloat_CheckExact(slow) || seconds > PyFloat_AS_DOUBLE(slow)) {
        PyObject *took = PyFloat_FromDouble(seconds), *one = PyLong_FromLong(1);
        PyObject *told = took == NULL || one == NULL ? NULL
                       : PyObject_CallMethodObjArgs(self->accounting, name_ended_reads, session, plan, command, one, hits, took, NULL);
        Py_XDECREF(took);
        Py_XDECREF(one);
        Py_XDECREF(told);
        return told == NULL ? FAILED : DONE;
    }
    if (add(counted, PLAN.calls, 1) != DONE || add_seconds(counted, PLAN.seconds, seconds) != DONE) return FAILED;
    if (at(self->accounting, ACCOUNTING.tracks_latencies) == Py_True) {
        int digits = 0;
        for (int64_t us = (int64_t)(seconds * 1e6); us; us /= 2) digits++;
        if (count_at(at(counted, PLAN.calls_by_digits), digits, 1) != DONE) return FAILED;
    }
    return add(self->stats, hits == zero ? STATS.keyspace_misses : STATS.keyspace_hits, 1);
}

/* The plan of the read that is all of `data`, and its command; NULL without an error: it is none. */
static PyObject *find_read(ClientPath *self, PyObject *data, PyObject **command)
{
    PyObject *name = NULL;
    const char *begin = PyBytes_AS_STRING(data), *end = begin + PyBytes_GET_SIZE(data);
    const char *next = read_command(begin, end, PyLong_AsSsize_t(self->count_max), &name, command);
    if (next == NULL) return NULL;
    PyObject *plan = next == end ? PyDict_GetItemWithError(self->by_spelling, name) : NULL;
    int64_t kind;
    if (is_type(plan, PLANS) && as_int64(at(plan, PLAN.run_kind), &kind) && kind >= 0) return plan;
    Py_CLEAR(*command);
    return NULL;
}

/* Whether reads need not be told of one by one. */
static int may_read(ClientPath *self)
{
    PyObject *slow = at(self->accounting, ACCOUNTING.slow_seconds);
    return PyFloat_CheckExact(slow) && PyFloat_AS_DOUBLE(slow) >= self->run_seconds ? DONE : UNUSUAL;
}

static int answer_read(ClientPath *self, PyObject *session, PyObject *plan, PyObject *command, Py_ssize_t size, double now)
{
    PyObject *output = at(session, SESSION.output), *parts = at(output, OUTPUT.parts), *wall = NULL;
    int done = may_read(self);
    if (done != DONE || look_at_clock(self, &wall) != DONE) {
        Py_XDECREF(wall);
        return done != DONE ? done : FAILED;
    }
    PyObject *commands = PyList_New(1), *result = NULL;
    double began = 0, ended = 0;
    if (commands != NULL && look_at_seconds(self, &began) == DONE) {
        PyList_SET_ITEM(commands, 0, Py_NewRef(command));
        PyObject *given[] = {self->served, at(plan, PLAN.run_kind), commands, zero, wall,
            at(session, SESSION.encode) == self->encode3 ? Py_True : Py_False, parts};
        result = read_run(NULL, given, 7);
    }
    Py_XDECREF(commands);
    Py_DECREF(wall);
    if (result == NULL) return FAILED;
    if (PyTuple_GET_ITEM(result, 0) == zero) {
        Py_DECREF(result);
        return UNUSUAL;
    }
    put_new(session, SESSION.last_command, at(plan, PLAN.name));
    done = look_at_seconds(self, &ended);
    if (done == DONE) done = count_bytes(self, session, size, 1, 1, now);
    if (done == DONE) done = count_read(self, session, plan, command, PyTuple_GET_ITEM(result, 1), ended - began);
    Py_DECREF(result);
    if (done != DONE) return FAILED;
    PyObject *data = PyList_GET_SIZE(parts) == 1 ? Py_NewRef(PyList_GET_ITEM(parts, 0)) : NULL;
    done = is_bytes(data) ? send(self, output, data) : UNUSUAL;
    Py_XDECREF(data);
    if (done == DONE) done = PyList_SetSlice(parts, 0, 1, NULL) < 0 ? FAILED : DONE;
    else if (done == UNUSUAL) done = flush(session);
    if (done == DONE) done = look_at_seconds(self, &ended);
    return done == DONE ? distribute(at(self->stats, STATS.request_seconds), ended - now, 1) : FAILED;
}

static int take_read(ClientPath *self, PyObject *session, PyObject *data, double now)
{
    PyObject *output = at(session, SESSION.output), *command = NULL, *parts = at(output, OUTPUT.parts);
    if (length(at(output, OUTPUT.pending_replies)) != 0 || parts == NULL || !PyList_CheckExact(parts) || PyList_GET_SIZE(parts))
        return UNUSUAL;
    PyObject *plan = find_read(self, data, &command);
    if (plan == NULL) return PyErr_Occurred() ? FAILED : UNUSUAL;
    int done = answer_read(self, session, plan, command, PyBytes_GET_SIZE(data), now);
    Py_DECREF(command);
    return done;
}

/* --------------------------------------------------------------------------------------------------------------- writes */

/* Whether so many writes of a client may be queued as one lot of bytes can hold. */
static int may_write(ClientPath *self, PyObject *output)
{
    int64_t waiting;
    Py_ssize_t places = length(at(output, OUTPUT.pending_replies));
    if (places < 0 || places > self->pending_replies_max || !as_int64(at(output, OUTPUT.pending_reply_bytes), &waiting) ||
        waiting > self->ahead_bytes)
        return PyErr_Occurred() ? FAILED : UNUSUAL;
    return DONE;
}

/* Whether so many may be queued in a partition, and nobody is to be told of each. */
static int may_queue(ClientPath *self, PyObject *one)
{
    PyObject *answers = PyTuple_GET_ITEM(one, SERVED_ANSWERS);
    int64_t events, bytes;
    if (!as_int64(at(answers, ANSWERS.pending_events), &events) || events > self->pending_events_max ||
        !as_int64(at(answers, ANSWERS.pending_bytes), &bytes) || bytes > self->pending_bytes_max)
        return PyErr_Occurred() ? FAILED : UNUSUAL;
    PyObject *told = PyObject_GetAttr(PyTuple_GET_ITEM(one, SERVED_PIPELINE), name_on_submitted);
    Py_XDECREF(told);
    return told == NULL ? FAILED : told == Py_None ? DONE : UNUSUAL;
}

/* The partition of an item that `take_data` has made, as one that is served. */
static PyObject *partition_at(ClientPath *self, PyObject *items, Py_ssize_t place)
{
    PyObject *entry = at(PyList_GET_ITEM(items, place), ITEM.entry);
    return PyTuple_GET_ITEM(self->served, PyLong_AsSsize_t(PyTuple_GET_ITEM(entry, 0)));
}

static int may_queue_all(ClientPath *self, PyObject *items)
{
    PyObject *known = NULL;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items); i++) {
        PyObject *one = partition_at(self, items, i);
        int done = one == known ? DONE : may_queue(self, one);
        if (done != DONE) return done;
        known = one;
    }
    return DONE;
}

static int extend(PyObject *deque, PyObject *items)
{
    PyObject *done = PyList_GET_SIZE(items) == 1 ? PyObject_CallMethodOneArg(deque, name_append, PyList_GET_ITEM(items, 0))
                                                 : PyObject_CallMethodOneArg(deque, name_extend, items);
    Py_XDECREF(done);
    return done == NULL ? FAILED : DONE;
}

/* As `WritePipeline.submit_all` where nobody wants to know. */
static int submit(PyObject *one, PyObject *items, Py_ssize_t bytes)
{
    PyObject *outbox = PyTuple_GET_ITEM(one, SERVED_OUTBOX), *answers = PyTuple_GET_ITEM(one, SERVED_ANSWERS);
    if (extend(at(outbox, OUTBOX.items), items) != DONE || add(answers, ANSWERS.pending_events, PyList_GET_SIZE(items)) != DONE ||
        add(answers, ANSWERS.pending_bytes, bytes) != DONE)
        return FAILED;
    if (at(outbox, OUTBOX.scheduled) == Py_True) return DONE;
    PyObject *scheduled = PyObject_CallMethodNoArgs(outbox, name_schedule);
    Py_XDECREF(scheduled);
    return scheduled == NULL ? FAILED : DONE;
}

/* Items that follow each other, for one partition. */
static int submit_some(PyObject *one, PyObject *items, Py_ssize_t from, Py_ssize_t end)
{
    PyObject *some = PyList_GetSlice(items, from, end);
    int64_t size, bytes = 0;
    for (Py_ssize_t i = from; some != NULL && i < end; i++)
        if (as_int64(at(PyList_GET_ITEM(items, i), ITEM.size), &size)) bytes += size;
    int done = some == NULL ? FAILED : submit(one, some, (Py_ssize_t)bytes);
    Py_XDECREF(some);
    return done;
}

static int submit_all(ClientPath *self, PyObject *items, Py_ssize_t bytes)
{
    Py_ssize_t count = PyList_GET_SIZE(items), from = 0;
    if (PyTuple_GET_SIZE(self->served) == 1) return submit(PyTuple_GET_ITEM(self->served, 0), items, bytes);
    while (from < count) {
        PyObject *one = partition_at(self, items, from);
        Py_ssize_t end = from + 1;
        while (end < count && partition_at(self, items, end) == one) end++;
        if (submit_some(one, items, from, end) != DONE) return FAILED;
        from = end;
    }
    return DONE;
}

/* How many bytes were taken; 0: nothing is usual, -1: an error. */
static Py_ssize_t take_writes_of(ClientPath *self, PyObject *session, PyObject *data, double now)
{
    PyObject *output = at(session, SESSION.output), *items, *wall = NULL;
    int may = may_write(self, output);
    if (may != DONE) return may == FAILED ? -1 : 0;
    PyObject *given[] = {data, self->plain_writes, session, self->count_max, self->items_max, self->served};
    PyObject *result = take_data(NULL, given, 6);
    if (result == NULL) return -1;
    items = PyTuple_GET_ITEM(result, 0);
    Py_ssize_t count = PyList_GET_SIZE(items), taken = PyLong_AsSsize_t(PyTuple_GET_ITEM(result, 1));
    Py_ssize_t bytes = PyLong_AsSsize_t(PyTuple_GET_ITEM(result, 2));
    int done = count ? may_queue_all(self, items) : UNUSUAL;
    if (done == DONE) {
        if (now - self->looked_at >= CLOCK_SECONDS) done = look_at_clock(self, &wall);
        if (wall != NULL) self->looked_at = now;
        Py_XDECREF(wall);
        if (done == DONE && length(at(output, OUTPUT.pending_replies)) == 0) done = set_seconds(output, OUTPUT.waiting_since, now);
        if (done == DONE) done = count_bytes(self, session, taken, count, taken == PyBytes_GET_SIZE(data), now);
        if (done == DONE) done = extend(at(output, OUTPUT.pending_replies), items);
        if (done == DONE) put_new(session, SESSION.last_command, at(PyList_GET_ITEM(items, count - 1), ITEM.name));
        if (done == DONE) done = submit_all(self, items, bytes);
    }
    Py_DECREF(result);
    return done == FAILED ? -1 : done == DONE ? taken : 0;
}

/* Others may have something to be sent: messages, what a command has let go on. */
static int flush_others(ClientPath *self)
{
    PyObject *ready = PyObject_GetAttr(self->server, name_ready);
    Py_ssize_t count = length(ready);
    Py_XDECREF(ready);
    return count < 0 ? FAILED : count ? flush(self->server) : DONE;
}

static PyObject *take(ClientPath *self, PyObject *const *given, Py_ssize_t count)
{
    if (count != 2 || item_type == NULL) {
        PyErr_SetString(PyExc_TypeError, "take(session, data)");
        return NULL;
    }
    PyObject *session = given[0], *data = given[1];
    double now;
    if (look_at_seconds(self, &now) != DONE) return NULL;
    int usual = is_usual(self, session, data, now);
    if (usual != DONE) return usual == FAILED ? NULL : Py_NewRef(zero);
    /* Its last command tells what it is likely to send: what is tried in vain costs the parsing of a command. */
    PyObject *last = at(session, SESSION.last_command);
    int writes = is_bytes(last) ? PyDict_Contains(self->plain_writes, last) : 0;
    if (writes < 0) return NULL;
    Py_ssize_t taken = 0;
    if (writes) taken = take_writes_of(self, session, data, now);
    if (!taken) {
        int done = take_read(self, session, data, now);
        taken = done == DONE ? PyBytes_GET_SIZE(data) : done == FAILED ? -1 : 0;
    }
    if (!taken && !writes) taken = take_writes_of(self, session, data, now);
    if (taken > 0 && taken == PyBytes_GET_SIZE(data) && flush_others(self) != DONE) taken = -1;
    return taken < 0 ? NULL : PyLong_FromSsize_t(taken);
}

/* -------------------------------------------------------------------------------------------------------------- replies */

/* Whether nothing but a few replies waits for the session, and its window is open: no need to learn from them. */
static int is_waiting(ClientPath *self, PyObject *session, PyObject *output)
{
    PyObject *inbox = at(session, SESSION.inbox), *window = at(output, OUTPUT.window);
    Py_ssize_t places = length(at(output, OUTPUT.pending_replies));
    int64_t commands;
    return at(session, SESSION.closing) == Py_False && at(session, SESSION.finished) == Py_False &&
           at(session, SESSION.ending) == Py_None && is_type(inbox, INBOXES) && length(at(inbox, INBOX.backlog)) == 0 &&
           length(at(output, OUTPUT.pushes)) == 0 && length(at(output, OUTPUT.parts)) == 0 && places > 0 && places <= REPLIES_MAX &&
           is_type(window, WINDOWS) && as_int64(at(window, WINDOW.commands), &commands) && commands >= self->window_max;
}

/* The replies for which a session waits, all of them there, as one string; NULL without an error: Python is to look. */
static PyObject *join_replies(ClientPath *self, PyObject *places)
{
    PyObject *replies[REPLIES_MAX], *joined = NULL;
    Py_ssize_t count = length(places), size = 0, i;
    for (i = 0; i < count; i++) {
        PyObject *place = PySequence_GetItem(places, i);
        if (place == NULL) return NULL;
        replies[i] = Py_TYPE(place) == item_type ? at(place, ITEM.data) : NULL;
        Py_DECREF(place); /* `places` has it */
        if (!is_bytes(replies[i])) return NULL;
        size += PyBytes_GET_SIZE(replies[i]);
    }
    if (size > count * self->mean_bytes_max) return NULL;
    if (count == 1) return Py_NewRef(replies[0]);
    joined = PyBytes_FromStringAndSize(NULL, size);
    if (joined == NULL) return NULL;
    char *to = PyBytes_AS_STRING(joined);
    for (i = 0; i < count; i++) {
        memcpy(to, PyBytes_AS_STRING(replies[i]), PyBytes_GET_SIZE(replies[i]));
        to += PyBytes_GET_SIZE(replies[i]);
    }
    return joined;
}

/* As `Session.flush` of the replies that it has waited for. */
static int send_replies(ClientPath *self, PyObject *session, double now)
{
    PyObject *output = is_type(session, SESSIONS) ? at(session, SESSION.output) : NULL;
    if (!is_type(output, OUTPUTS) || !is_waiting(self, session, output)) return PyErr_Occurred() ? FAILED : UNUSUAL;
    PyObject *since = at(output, OUTPUT.waiting_since), *places = at(output, OUTPUT.pending_replies);
    if (since == NULL || !PyFloat_CheckExact(since)) return UNUSUAL;
    double waited = now - PyFloat_AS_DOUBLE(since);
    Py_ssize_t count = length(places);
    PyObject *data = join_replies(self, places);
    if (data == NULL) return PyErr_Occurred() ? FAILED : UNUSUAL;
    int done = send(self, output, data);
    Py_DECREF(data);
    if (done != DONE) return done;
    PyObject *gone = PyObject_CallMethodNoArgs(places, name_clear);
    Py_XDECREF(gone);
    if (gone == NULL) return FAILED;
    put_new(output, OUTPUT.waiting_since, at(session, SESSION.last_active));
    put_new(output, OUTPUT.pending_reply_bytes, zero);
    return distribute(at(self->stats, STATS.write_seconds), waited, count);
}

static PyObject *send_ready(ClientPath *self, PyObject *ready)
{
    double now;
    PyObject *sessions = look_at_seconds(self, &now) == DONE ? PySequence_List(ready) : NULL;
    if (sessions == NULL) return NULL;
    int done = DONE;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(sessions) && done != FAILED; i++) {
        done = send_replies(self, PyList_GET_ITEM(sessions, i), now);
        if (done == UNUSUAL) done = flush(PyList_GET_ITEM(sessions, i));
    }
    Py_DECREF(sessions);
    return done == FAILED ? NULL : Py_NewRef(Py_None);
}

/* ------------------------------------------------------------------------------------------------------------- the type */

static int client_path_traverse(ClientPath *self, visitproc visit, void *arg)
{
    for (int i = 0; i < REFERENCES; i++) Py_VISIT((&self->server)[i]);
    return 0;
}

static int client_path_clear(ClientPath *self)
{
    for (int i = 0; i < REFERENCES; i++) Py_CLEAR((&self->server)[i]);
    return 0;
}

static void client_path_dealloc(ClientPath *self)
{
    PyObject_GC_UnTrack(self);
    client_path_clear(self);
    Py_TYPE(self)->tp_free(self);
}

/* Whether it has of each partition nothing or what this path needs. */
static int are_served(PyObject *served)
{
    if (!PyTuple_CheckExact(served) || !PyTuple_GET_SIZE(served)) return 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(served); i++) {
        PyObject *one = served_at(served, i);
        if (one == NULL && PyTuple_GET_ITEM(served, i) != Py_None) return 0;
        if (one != NULL && (Py_TYPE(PyTuple_GET_ITEM(one, SERVED_PATH)) != &PathType || !is_type(PyTuple_GET_ITEM(one, SERVED_OUTBOX), OUTBOXES) ||
                               !is_type(PyTuple_GET_ITEM(one, SERVED_ANSWERS), ANSWERED)))
            return 0;
    }
    return 1;
}

static PyObject *client_path_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *words[] = {"server", "stats", "accounting", "served", "by_spelling", "plain_writes", "now_ms", "monotonic", "encode3", "count_max", "items_max", "data_bytes_max", "pending_replies_max", "ahead_bytes",
        "pending_events_max", "pending_bytes_max", "sent_bytes_max", "mean_bytes_max", "window_max", "run_seconds", NULL};
    PyObject *given[REFERENCES];
    Py_ssize_t limits[8];
    double run_seconds;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "$OOOOOOOOOOOnnnnnnnnd", words, &given[0], &given[1], &given[2], &given[3],
            &given[4], &given[5], &given[6], &given[7], &given[8], &given[9], &given[10],
            &limits[0], &limits[1], &limits[2], &limits[3], &limits[4], &limits[5], &limits[6], &limits[7], &run_seconds))
        return NULL;
    if (!is_type(given[1], STATISTICS) || !is_type(given[2], ACCOUNTS) || !are_served(given[3]) || !is_dict(given[4]) ||
        !is_dict(given[5]) || !PyLong_CheckExact(given[9])) {
        PyErr_SetString(PyExc_TypeError, "other types than configure_clients was told of");
        return NULL;
    }
    ClientPath *self = (ClientPath *)type->tp_alloc(type, 0);
    if (self == NULL) return NULL;
    for (int i = 0; i < REFERENCES; i++) (&self->server)[i] = Py_NewRef(given[i]);
    for (int i = 0; i < 8; i++) (&self->data_bytes_max)[i] = limits[i];
    self->run_seconds = run_seconds;
    self->looked_at = -1;
    return (PyObject *)self;
}

static PyMethodDef client_path_methods[] = {
    {"take", (PyCFunction)(void (*)(void))take, METH_FASTCALL,
     "take(session, data): run the commands with which the bytes of a client begin, as far as they are usual.\n\n"
     "Returns how many bytes those have. Where that is all of them, what is there for other clients is sent, too."},
    {"send", (PyCFunction)send_ready, METH_O, "send(sessions): as `Session.flush` of each."},
    {NULL},
};

PyTypeObject ClientPathType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "engine.native._hot.ClientPath",
    .tp_doc = "The way of the usual commands of one server's clients.",
    .tp_basicsize = sizeof(ClientPath),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_traverse = (traverseproc)client_path_traverse,
    .tp_clear = (inquiry)client_path_clear,
    .tp_dealloc = (destructor)client_path_dealloc,
    .tp_new = client_path_new,
    .tp_methods = client_path_methods,
};

int init_turns(void)
{
    static struct {
        PyObject **to;
        const char *name;
    } const names[] = {{&name_append, "append"}, {&name_clear, "clear"}, {&name_closing, "is_closing"}, {&name_ended_reads, "ended_reads"},
        {&name_extend, "extend"}, {&name_flush, "flush"}, {&name_on_submitted, "on_submitted"},
        {&name_owns_until, "owns_until"}, {&name_ready, "ready"}, {&name_schedule, "schedule"}, {&name_wall_ms, "wall_ms"},
        {&name_waiting, "get_write_buffer_size"}, {&name_write, "write"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if ((*names[i].to = PyUnicode_InternFromString(names[i].name)) == NULL) return FAILED;
    return PyType_Ready(&ClientPathType) < 0 ? FAILED : DONE;
}
