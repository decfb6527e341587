/* Commands without options, of one element or a few: twins of functions in engine/commands/ and engine/types/. */

#include "hot.h"

static const char *const COMMAND_NAMES[] = {"SET", "HSET", "INCR", "LPUSH", "RPUSH", "SADD", "ZADD"};
PyObject *commands[COMMANDS];   /* their names as bytes */
static PyObject *command_codes; /* name -> place in it */
static PyObject *name_create;

int init_commands(void)
{
    command_codes = PyDict_New();
    name_create = PyUnicode_InternFromString("create");
    if (command_codes == NULL || name_create == NULL) return FAILED;
    for (int i = 0; i < COMMANDS; i++) {
        PyObject *code = PyLong_FromLong(i);
        commands[i] = PyBytes_FromString(COMMAND_NAMES[i]);
        if (code == NULL || commands[i] == NULL || PyDict_SetItem(command_codes, commands[i], code) < 0) return FAILED;
        Py_DECREF(code);
    }
    return DONE;
}

static inline int set_subkey(PyObject *subkeys, PyObject *subkey, PyObject *value)
{
    return PyDict_SetItem(at(subkeys, SUBKEYS.changed), subkey, value);
}

/* As `Transaction._count`, for a key that is a string now. */
static int count_string(PyObject *tx, PyObject *key)
{
    PyObject *counts = at(tx, TX.counts), *counted = PyTuple_Pack(2, at(key, KEY.db), codes[STRING]), *sum = NULL;
    if (counted == NULL) return FAILED;
    PyObject *old = PyDict_GetItemWithError(counts, counted);
    if (old == NULL && PyErr_Occurred()) goto done;
    sum = old == NULL ? PyLong_FromLong(1) : PyNumber_Add(old, codes[1]); /* codes[1] is the number 1 */
    if (sum != NULL && PyDict_SetItem(counts, counted, sum) < 0) Py_CLEAR(sum);
done:
    Py_DECREF(counted);
    Py_XDECREF(sum);
    return sum == NULL ? FAILED : DONE;
}

/* Whether a string may be put into this key without more ado: it is one, or nothing, and has no fragments. */
static inline int takes_string(PyObject *key, int type)
{
    return type >= NONE && type <= STRING && at(key, KEY.version) == zero && at(key, KEY.times) == Py_None;
}

/* As `Transaction.put_string` with a value that is not large, without a time to live. Takes over `value`. */
static int put_string(PyObject *tx, PyObject *key, int type, PyObject *value)
{
    PyObject *size = PyLong_FromSsize_t(PyBytes_GET_SIZE(value));
    if (size == NULL) {
        Py_DECREF(value);
        return FAILED;
    }
    put(tx, TX.written_bytes, size);
    Py_ssize_t bytes = PyBytes_GET_SIZE(value);
    put(key, KEY.value, value);
    put_new(key, KEY.expire_ms, zero);
    put_new(key, KEY.changed, Py_True);
    if (add_to(tx, TX.value_bytes, bytes) == FAILED) return FAILED;
    if (type == STRING) return DONE;
    put_new(key, KEY.type, codes[STRING]);
    return count_string(tx, key);
}

/* The number that INCR takes these bytes for, exactly as `parse_int`: -?[1-9][0-9]* or 0, of 64 bits. */
static int parse_int(PyObject *data, int64_t *number)
{
    const char *from = PyBytes_AS_STRING(data), *end = from + PyBytes_GET_SIZE(data);
    int negative = from < end && *from == '-';
    from += negative;
    if (from >= end || end - from > 19 || (*from == '0' && (negative || end - from > 1))) return 0;
    uint64_t value = 0; /* 19 digits fit */
    for (; from < end; from++) {
        if (*from < '0' || *from > '9') return 0;
        value = value * 10 + (uint64_t)(*from - '0');
    }
    if (value > (uint64_t)INT64_MAX) return 0; /* the lowest number is Python's */
    *number = negative ? -(int64_t)value : (int64_t)value;
    return 1;
}

/* Eight bytes that sort as scores do, of the score that these bytes spell. NULL without an error: it is none. */
static PyObject *pack_score(Path *path, PyObject *text)
{
    const char *from = PyBytes_AS_STRING(text);
    Py_ssize_t size = PyBytes_GET_SIZE(text), digits = 0;
    uint64_t bits, number = 0;
    double score;
    for (; digits < size && digits < 16 && from[digits] >= '0' && from[digits] <= '9'; digits++)
        number = number * 10 + (uint64_t)(from[digits] - '0');
    if (size && digits == size && number <= (1ULL << 53)) score = (double)number; /* exact */
    else {
        PyObject *parsed = PyObject_CallOneArg(path->parse_double, text);
        if (parsed == NULL) return NULL;
        int is_score = PyFloat_CheckExact(parsed);
        score = is_score ? PyFloat_AS_DOUBLE(parsed) + 0.0 : 0; /* + 0.0 turns -0.0 into +0.0 */
        Py_DECREF(parsed);
        if (!is_score || score != score) return NULL;
    }
    memcpy(&bits, &score, 8);
    bits = bits >> 63 ? ~bits : bits | 1ULL << 63;
    PyObject *packed = PyBytes_FromStringAndSize(NULL, 8);
    if (packed != NULL) pack(PyBytes_AS_STRING(packed), bits, 8);
    return packed;
}

/* What a command is given. */
typedef struct {
    Run *run;
    PyObject *tx, *args, *offset, *time_ms, *key, *score;
    Py_ssize_t count; /* of arguments */
    int64_t now_ms;
    int type; /* of the key; `score` is a packed one, of ZADD alone */
} Call;

static inline PyObject *arg(Call *call, Py_ssize_t i) { return PyList_GET_ITEM(call->args, i); }
static inline int start(Call *call) { return begin(call->run, call->offset, call->time_ms, call->now_ms); }

static int do_set(Call *call, PyObject **reply)
{
    PyObject *value = arg(call, 1);
    if (!takes_string(call->key, call->type) || PyBytes_GET_SIZE(value) > call->run->path->cached_bytes_max) return UNUSUAL;
    *reply = Py_NewRef(call->run->path->ok);
    if (start(call) == FAILED) return FAILED;
    return put_string(call->tx, call->key, call->type, Py_NewRef(value));
}

static int do_incr(Call *call, PyObject **reply)
{
    int64_t number = 0;
    PyObject *old = at(call->key, KEY.value);
    if (!takes_string(call->key, call->type) || !is_bytes(old)) return UNUSUAL;
    if (call->type == STRING && (!parse_int(old, &number) || number == INT64_MAX)) return UNUSUAL;
    number++;
    if ((*reply = PyLong_FromLongLong(number)) == NULL || start(call) == FAILED) return FAILED;
    PyObject *value = spelled_int64(number);
    if (value == NULL) return FAILED;
    if (call->type == NONE) return put_string(call->tx, call->key, NONE, value);
    put(call->key, KEY.value, value);
    put_new(call->key, KEY.changed, Py_True);
    return DONE;
}

/* Makes the key a collection where it is nothing, or sees that it is one of this type, with subkeys as they usually are.
 * `start` is called when nothing but the caller's own changes can follow: DONE. */
static int open_collection(Call *call, int type)
{
    PyObject *key = call->key;
    if (at(key, KEY.times) != Py_None || at(key, KEY.ranks) != Py_None) return UNUSUAL;
    if (call->type == type) {
        if (plain_code(key) != type) return UNUSUAL;
        return start(call);
    }
    if (call->type != NONE || at(key, KEY.version) != zero) return UNUSUAL;
    if (start(call) == FAILED) return FAILED;
    PyObject *made = PyObject_CallMethodObjArgs(call->tx, name_create, at(key, KEY.name), codes[type], NULL);
    if (made == NULL) return FAILED;
    int is_usual = made == key && plain_code(key) == type;
    Py_DECREF(made);
    if (is_usual) return DONE;
    PyErr_SetString(PyExc_TypeError, "a new collection is not as expected");
    return FAILED;
}

/* `added` elements more; the metadata has changed if there are any. */
static int grow(PyObject *key, int64_t added)
{
    if (!added) return DONE;
    put_new(key, KEY.changed, Py_True);
    return add_to(key, KEY.size, added);
}

static inline int has_size(PyObject *key, int64_t *size) { return as_int64(at(key, KEY.size), size) && *size >= 0 && *size < INT64_MAX / 2; }

/* HSET and SADD: `step` arguments an element, the value is the second of them. */
static int do_put(Call *call, PyObject **reply, int type, Py_ssize_t step)
{
    int64_t size, added = 0;
    if ((call->count - 1) % step || !has_size(call->key, &size)) return UNUSUAL;
    int opened = open_collection(call, type);
    if (opened != DONE) return opened;
    PyObject *data = Py_NewRef(at(call->key, KEY.data));
    int done = DONE;
    for (Py_ssize_t i = 1; done == DONE && i < call->count; i += step) {
        PyObject *old = get_subkey(data, arg(call, i));
        if (old == NULL) done = FAILED;
        else {
            added += old == Py_None;
            if ((step == 2 || old == Py_None) && set_subkey(data, arg(call, i), step == 2 ? arg(call, i + 1) : empty_bytes) < 0)
                done = FAILED;
            Py_DECREF(old);
        }
    }
    Py_DECREF(data);
    if (done == FAILED || (*reply = PyLong_FromLongLong(added)) == NULL) return FAILED;
    return grow(call->key, added);
}

static int do_push(Call *call, PyObject **reply, int to_head)
{
    uint64_t head, tail;
    int64_t size;
    PyObject *key = call->key;
    uint64_t more = (uint64_t)(call->count - 1);
    if (!as_uint64(at(key, KEY.head), &head) || !as_uint64(at(key, KEY.tail), &tail) || !has_size(key, &size)) return UNUSUAL;
    if (head > tail || head < more || tail > UINT64_MAX - more || tail - head + more > INT64_MAX) return UNUSUAL;
    int opened = open_collection(call, LIST);
    if (opened != DONE) return opened;
    /* A list that was made just now begins at LIST_START, as any key without one. */
    if (!as_uint64(at(key, KEY.head), &head) || !as_uint64(at(key, KEY.tail), &tail)) return FAILED;
    for (Py_ssize_t i = 1; i < call->count; i++) {
        PyObject *index = PyBytes_FromStringAndSize(NULL, 8);
        if (index == NULL) return FAILED;
        pack(PyBytes_AS_STRING(index), to_head ? --head : tail++, 8);
        int failed = set_subkey(at(key, KEY.data), index, arg(call, i));
        Py_DECREF(index);
        if (failed) return FAILED;
    }
    PyObject *end = PyLong_FromUnsignedLongLong(to_head ? head : tail);
    *reply = PyLong_FromUnsignedLongLong(tail - head);
    if (end == NULL || *reply == NULL) {
        Py_XDECREF(end);
        return FAILED;
    }
    put(key, to_head ? KEY.head : KEY.tail, end);
    put_new(key, KEY.size, *reply);
    put_new(key, KEY.changed, Py_True);
    return DONE;
}

/* Whether pops have left a hint for this version (`Transaction.floors`), which Python then moves; -1: error. */
static int has_hint(PyObject *tx, PyObject *version)
{
    PyObject *hints[] = {at(tx, TX.floors), at(tx, TX.ceilings)};
    for (int i = 0; i < 2; i++) {
        if (!is_dict(hints[i])) return 1;
        if (PyDict_GET_SIZE(hints[i])) {
            int found = PyDict_Contains(hints[i], version);
            if (found) return found;
        }
    }
    return 0;
}

static int do_zadd(Call *call, PyObject **reply)
{
    PyObject *key = call->key, *score = call->score, *member = arg(call, 2), *old = NULL, *old_key = NULL, *score_key = NULL;
    int64_t size;
    if (!has_size(key, &size) || size >= call->run->path->plain_size_max || at(key, KEY.version) == NULL) return UNUSUAL;
    int hinted = has_hint(call->tx, at(key, KEY.version));
    if (hinted) return hinted < 0 ? FAILED : UNUSUAL;
    int done = open_collection(call, ZSET);
    if (done != DONE) goto end;
    done = FAILED;
    PyObject *scores = at(key, KEY.scores), *data = at(key, KEY.data);
    if ((old = get_subkey(data, member)) == NULL) goto end;
    int is_same = PyBytes_CheckExact(old) && PyBytes_GET_SIZE(old) == 8 && !memcmp(PyBytes_AS_STRING(old), PyBytes_AS_STRING(score), 8);
    if ((*reply = PyLong_FromLong(old == Py_None)) == NULL) goto end;
    if (is_same) {
        done = DONE;
        goto end;
    }
    if (old != Py_None) {
        if (!PyBytes_CheckExact(old)) {
            PyErr_SetString(PyExc_TypeError, "a score is not bytes");
            goto end;
        }
        if ((old_key = joined(old, member)) == NULL || set_subkey(scores, old_key, Py_None) < 0) goto end;
    }
    if ((score_key = joined(score, member)) == NULL || set_subkey(data, member, score) < 0) goto end;
    if (set_subkey(scores, score_key, empty_bytes) < 0) goto end;
    done = grow(key, old == Py_None);
end:
    Py_XDECREF(old);
    Py_XDECREF(old_key);
    Py_XDECREF(score_key);
    return done;
}

/* Applies one record; see the enum for what it returns. */
int apply_record(Run *run, PyObject *record)
{
    if (!PyTuple_CheckExact(record) || PyTuple_GET_SIZE(record) != 7) return UNUSUAL;
    PyObject *tx = run->path->tx, **of = &PyTuple_GET_ITEM(record, 0), *name = of[2], *args = of[3];
    if (of[4] != zero || of[5] != Py_None || of[6] != Py_None || !is_bytes(name) || !PyList_CheckExact(args)) return UNUSUAL;
    PyObject *known = PyDict_GetItemWithError(command_codes, name);
    if (known == NULL) return PyErr_Occurred() ? FAILED : UNUSUAL;
    int command = (int)PyLong_AsLong(known);
    Call call = {run, tx, args, of[0], of[1], NULL, NULL, PyList_GET_SIZE(args), run->clock_ms, NONE};
    int fits = command == DO_SET ? call.count == 2 : command == DO_INCR ? call.count == 1 :
        command == DO_ZADD || command == DO_HSET ? call.count == 3 : call.count > 1;
    int64_t time_ms;
    if (!fits || !PyLong_CheckExact(of[0]) || !as_int64(of[1], &time_ms) || time_ms < 0 || time_ms > run->path->time_max) return UNUSUAL;
    for (Py_ssize_t i = 0; i < call.count; i++)
        if (!is_bytes(PyList_GET_ITEM(args, i))) return UNUSUAL;
    if (time_ms > call.now_ms) call.now_ms = time_ms;
    PyObject *keys = at(tx, TX.keys);
    if (at(tx, TX.db) != zero || !is_dict(keys) || !is_dict(at(tx, TX.counts))) return UNUSUAL;
    if (command == DO_ZADD) { /* before the key is looked for, as the twin does */
        call.score = pack_score(run->path, PyList_GET_ITEM(args, 1));
        if (call.score == NULL) return PyErr_Occurred() ? FAILED : UNUSUAL;
    }
    Py_INCREF(keys);
    call.key = find(run->path, keys, PyList_GET_ITEM(args, 0));
    Py_DECREF(keys);
    if (call.key == NULL) {
        Py_XDECREF(call.score);
        return PyErr_Occurred() ? FAILED : UNUSUAL;
    }
    PyObject *reply = NULL;
    int64_t expire_ms = 0;
    int done = UNUSUAL;
    if (as_int64(at(call.key, KEY.expire_ms), &expire_ms) && (expire_ms == 0 || expire_ms > call.now_ms)) {
        call.type = code_of(call.key);
        switch (command) {
            case DO_SET: done = do_set(&call, &reply); break;
            case DO_HSET: done = do_put(&call, &reply, HASH, 2); break;
            case DO_INCR: done = do_incr(&call, &reply); break;
            case DO_LPUSH: done = do_push(&call, &reply, 1); break;
            case DO_RPUSH: done = do_push(&call, &reply, 0); break;
            case DO_SADD: done = do_put(&call, &reply, SET, 1); break;
            case DO_ZADD: done = do_zadd(&call, &reply); break;
        }
    }
    if (done == DONE) {
        run->by_command[command]++;
        if (run->waiting != NULL) {
            int waits = PySequence_Contains(run->waiting, call.offset);
            if (waits < 0 || (waits && PyDict_SetItem(run->outcomes, call.offset, reply) < 0)) done = FAILED;
        }
    }
    Py_DECREF(call.key);
    Py_XDECREF(call.score);
    Py_XDECREF(reply);
    return done;
}

