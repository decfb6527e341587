/* Commands on keys of any type: twins of functions in engine/commands/generic/keys.py. */

#include "hot.h"

/* `start_ms` plus the time that `amount` spells in units of `unit_ms`, as `parse_expire_ms`. */
int read_time(PyObject *amount, int64_t unit_ms, int64_t start_ms, int64_t *time_ms)
{
    return parse_int(amount, time_ms) && !__builtin_mul_overflow(*time_ms, unit_ms, time_ms) &&
           !__builtin_add_overflow(*time_ms, start_ms, time_ms);
}

/* EXPIRE and its like, without conditions. */
static int expire(Call *call, int64_t unit_ms, int64_t start_ms, PyObject **reply)
{
    int64_t expire_ms;
    if (!read_time(call->args[1], unit_ms, start_ms, &expire_ms)) return UNUSUAL;
    int found = find_key(call, call->args[0]);
    if (found != DONE) return found;
    PyObject *key = call->key;
    if (call->type != NONE) {
        if (expire_ms <= call->run->clock_ms || at(key, KEY.times) != Py_None || !is_bytes(at(key, KEY.value)) ||
            PyBytes_GET_SIZE(at(key, KEY.value)) > call->run->path->cached_bytes_max)
            return UNUSUAL; /* a string that may have to be written in fragments */
        PyObject *expires = PyLong_FromLongLong(expire_ms);
        if (expires == NULL) return FAILED;
        put(key, KEY.expire_ms, expires);
        put_new(key, KEY.changed, Py_True);
    }
    *reply = PyLong_FromLong(call->type != NONE);
    return *reply == NULL ? FAILED : DONE;
}

int do_expire(Call *call, PyObject **reply) { return expire(call, 1000, call->run->clock_ms, reply); }
int do_pexpire(Call *call, PyObject **reply) { return expire(call, 1, call->run->clock_ms, reply); }
int do_expireat(Call *call, PyObject **reply) { return expire(call, 1000, 0, reply); }
int do_pexpireat(Call *call, PyObject **reply) { return expire(call, 1, 0, reply); }

int do_del(Call *call, PyObject **reply)
{
    int done = find_key(call, call->args[0]);
    if (done == DONE && call->type != NONE) done = delete_key(call);
    if (done != DONE) return done;
    *reply = PyLong_FromLong(call->type != NONE);
    return *reply == NULL ? FAILED : DONE;
}
