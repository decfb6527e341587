/* Commands on strings: twins of functions in engine/commands/strings/, engine/types/string/strings.py and `Transaction`. */

#include "hot.h"

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
static inline int takes_string(Call *call)
{
    PyObject *key = call->key;
    return call->type >= NONE && call->type <= STRING && at(key, KEY.version) == zero && at(key, KEY.times) == Py_None;
}

/* As `Transaction.put_string` with a value that is not large. Takes over `value`. */
static int put_string(Call *call, PyObject *value, int64_t expire_ms)
{
    PyObject *tx = call->tx, *key = call->key, *expires = expire_ms ? PyLong_FromLongLong(expire_ms) : Py_NewRef(zero);
    if (expires == NULL) {
        Py_DECREF(value);
        return FAILED;
    }
    Py_ssize_t bytes = PyBytes_GET_SIZE(value);
    put(key, KEY.value, value);
    put(key, KEY.expire_ms, expires);
    put_new(key, KEY.changed, Py_True);
    if (add_to(tx, TX.value_bytes, bytes) == FAILED || add_to(tx, TX.written_bytes, bytes) == FAILED) return FAILED;
    if (call->type == STRING) return DONE;
    put_new(key, KEY.type, codes[STRING]);
    return count_string(tx, key);
}

static int set(Call *call, PyObject *value, int64_t expire_ms, PyObject **reply)
{
    if (PyBytes_GET_SIZE(value) > call->run->path->cached_bytes_max) return UNUSUAL;
    int found = find_key(call, call->args[0]);
    if (found != DONE) return found;
    if (!takes_string(call)) return UNUSUAL;
    *reply = Py_NewRef(call->run->path->ok);
    return put_string(call, Py_NewRef(value), expire_ms);
}

/* The option's unit and where its time counts from: EX, PX, EXAT or PXAT, in capital letters or small ones. */
static int read_unit(Call *call, PyObject *word, int64_t *unit_ms, int64_t *start_ms)
{
    char letters[5] = {0};
    Py_ssize_t size = PyBytes_GET_SIZE(word);
    if (size != 2 && size != 4) return 0;
    for (Py_ssize_t i = 0; i < size; i++) {
        char letter = PyBytes_AS_STRING(word)[i];
        letters[i] = letter >= 'a' && letter <= 'z' ? (char)(letter - 'a' + 'A') : letter;
    }
    *unit_ms = letters[0] == 'E' ? 1000 : 1;
    *start_ms = size == 2 ? call->run->clock_ms : 0;
    return !memcmp(letters + (letters[0] == 'P'), letters[0] == 'P' ? "X" : "EX", letters[0] == 'P' ? 1 : 2) &&
           (size == 2 || !memcmp(letters + 2, "AT", 2));
}

/* A time to live, for a string that is not dead at once. */
static int set_until(Call *call, PyObject *value, PyObject *amount, int64_t unit_ms, int64_t start_ms, PyObject **reply)
{
    int64_t expire_ms;
    if (!read_time(amount, unit_ms, start_ms, &expire_ms) || expire_ms <= call->run->clock_ms) return UNUSUAL;
    return set(call, value, expire_ms, reply);
}

int do_set(Call *call, PyObject **reply)
{
    int64_t unit_ms, start_ms;
    if (call->count == 2) return set(call, call->args[1], 0, reply);
    if (call->count != 4 || !read_unit(call, call->args[2], &unit_ms, &start_ms)) return UNUSUAL;
    return set_until(call, call->args[1], call->args[3], unit_ms, start_ms, reply);
}

int do_setex(Call *call, PyObject **reply)
{
    return set_until(call, call->args[2], call->args[1], 1000, call->run->clock_ms, reply);
}

int do_psetex(Call *call, PyObject **reply)
{
    return set_until(call, call->args[2], call->args[1], 1, call->run->clock_ms, reply);
}

/* As `strings.increment`. */
static int increment(Call *call, int64_t by, PyObject **reply)
{
    int64_t number = 0;
    int found = find_key(call, call->args[0]);
    if (found != DONE) return found;
    PyObject *old = at(call->key, KEY.value);
    if (!takes_string(call) || !is_bytes(old)) return UNUSUAL;
    if (call->type == STRING && !parse_int(old, &number)) return UNUSUAL;
    if (__builtin_add_overflow(number, by, &number)) return UNUSUAL;
    PyObject *value = spelled_int64(number);
    if (value == NULL) return FAILED;
    if ((*reply = PyLong_FromLongLong(number)) == NULL) {
        Py_DECREF(value);
        return FAILED;
    }
    if (call->type == NONE) return put_string(call, value, 0);
    put(call->key, KEY.value, value);
    put_new(call->key, KEY.changed, Py_True);
    return DONE;
}

int do_incr(Call *call, PyObject **reply) { return increment(call, 1, reply); }
int do_decr(Call *call, PyObject **reply) { return increment(call, -1, reply); }

int do_incrby(Call *call, PyObject **reply)
{
    int64_t by;
    return parse_int(call->args[1], &by) ? increment(call, by, reply) : UNUSUAL;
}
