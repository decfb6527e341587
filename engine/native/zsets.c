/* Commands on sorted sets: twins of functions in engine/commands/zsets/ and engine/types/zset/zsets.py. */

#include "hot.h"

enum { PAIRS_MAX = 16 };

/* Whether pops have left a hint for this version (`Transaction.floors`), which Python then moves; -1: error. */
int has_hint(PyObject *tx, PyObject *version)
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

/* Opens a sorted set for `more` members, at most; as `open_collection`. */
static int open_zset(Call *call, Py_ssize_t more)
{
    int64_t size;
    PyObject *key = call->key;
    if (!has_size(key, &size) || size + more > call->run->path->plain_size_max || at(key, KEY.version) == NULL) return UNUSUAL;
    int hinted = has_hint(call->tx, at(key, KEY.version));
    if (hinted) return hinted < 0 ? FAILED : UNUSUAL;
    return open_collection(call, ZSET);
}

/* Whether it is a packed score; what is neither that nor None is an error. */
static inline int is_packed(PyObject *score)
{
    if (PyBytes_CheckExact(score) && PyBytes_GET_SIZE(score) == 8) return 1;
    if (score != Py_None) PyErr_SetString(PyExc_TypeError, "a score is not eight bytes");
    return 0;
}

/* As `zsets._write`: both records of one member, and its old score key away. */
static int write_member(PyObject *key, PyObject *member, PyObject *old, PyObject *score)
{
    PyObject *score_key = joined(score, member), *old_key = old == Py_None ? NULL : joined(old, member);
    PyObject *scores = at(key, KEY.scores);
    int failed = score_key == NULL || (old_key == NULL && old != Py_None) ||
                 (old_key != NULL && set_subkey(scores, old_key, Py_None) < 0) ||
                 set_subkey(at(key, KEY.data), member, score) < 0 || set_subkey(scores, score_key, empty_bytes) < 0;
    Py_XDECREF(score_key);
    Py_XDECREF(old_key);
    return failed ? FAILED : DONE;
}

/* Gives a member its score. DONE; the caller counts it if it `is_new`. */
static int put_member(PyObject *key, PyObject *member, PyObject *score, int *is_new)
{
    PyObject *old = get_subkey(at(key, KEY.data), member);
    *is_new = old == Py_None;
    if (old == NULL) return FAILED;
    int done = DONE, is_old = is_packed(old);
    if (PyErr_Occurred()) done = FAILED;
    else if (!is_old || memcmp(PyBytes_AS_STRING(old), PyBytes_AS_STRING(score), 8)) done = write_member(key, member, old, score);
    Py_DECREF(old);
    return done;
}

/* Gives a member of a set with rank counts another score; `old` and `score` are packed, None where it has none. UNUSUAL: pops have
 * left a hint. */
static int move_member(Call *call, PyObject *member, PyObject *old, PyObject *score)
{
    int hinted = has_hint(call->tx, at(call->key, KEY.version));
    if (hinted) return hinted < 0 ? FAILED : UNUSUAL;
    if (old != Py_None && score != Py_None && !memcmp(PyBytes_AS_STRING(old), PyBytes_AS_STRING(score), 8)) return DONE;
    return move_ranked(call, member, old, score);
}

/* As `add_members` of one, in a set with rank counts. */
static int add_ranked(Call *call, PyObject *score, PyObject *member, PyObject **reply)
{
    PyObject *old = get_subkey(at(call->key, KEY.data), member);
    if (old == NULL) return FAILED;
    int is_old = is_packed(old), done = PyErr_Occurred() ? FAILED : move_member(call, member, old, score);
    Py_DECREF(old);
    if (done != DONE) return done;
    *reply = PyLong_FromLong(!is_old);
    return *reply == NULL ? FAILED : DONE;
}

static int add_members(Call *call, PyObject *const *scores, Py_ssize_t pairs, PyObject **reply)
{
    int64_t added = 0;
    int done = find_key(call, call->args[0]);
    if (done == DONE && pairs == 1 && is_ranked(call->key)) return add_ranked(call, scores[0], call->args[2], reply);
    if (done == DONE) done = open_zset(call, pairs);
    for (Py_ssize_t i = 0; done == DONE && i < pairs; i++) {
        int is_new;
        done = put_member(call->key, call->args[2 + 2 * i], scores[i], &is_new);
        added += is_new;
    }
    if (done != DONE) return done;
    *reply = PyLong_FromLongLong(added);
    return *reply == NULL ? FAILED : grow(call->key, added);
}

int do_zadd(Call *call, PyObject **reply)
{
    PyObject *scores[PAIRS_MAX];
    Py_ssize_t pairs = (call->count - 1) / 2, read = 0;
    if (call->count % 2 == 0 || pairs > PAIRS_MAX) return UNUSUAL;
    int done = DONE;
    for (; done == DONE && read < pairs; read++) { /* before the key is looked for, as the twin does */
        double score;
        done = parse_score(call->run->path, call->args[1 + 2 * read], &score);
        if (done != DONE) break;
        if ((scores[read] = pack_score(score)) == NULL) {
            done = FAILED;
            break;
        }
    }
    if (done == DONE) done = add_members(call, scores, pairs, reply);
    while (read > 0) Py_DECREF(scores[--read]);
    return done;
}

/* The packed score of a member, a new reference; None: it has none. UNUSUAL: the key is not as expected. */
static int find_score(Call *call, PyObject *member, int is_counted, PyObject **score)
{
    if (call->type == NONE) *score = Py_NewRef(Py_None);
    else if (!is_counted && plain_code(call->key) != ZSET) return UNUSUAL;
    else *score = get_subkey(at(call->key, KEY.data), member);
    return *score == NULL || (!is_packed(*score) && PyErr_Occurred()) ? FAILED : DONE;
}

int do_zincrby(Call *call, PyObject **reply)
{
    double by, score;
    PyObject *member = call->args[2], *old = NULL, *packed = NULL;
    int done = parse_score(call->run->path, call->args[1], &by);
    if (done == DONE) done = find_key(call, call->args[0]);
    if (done != DONE) return done;
    int is_counted = call->type != NONE && is_ranked(call->key);
    done = find_score(call, member, is_counted, &old);
    if (done == DONE) {
        score = old == Py_None ? by : unpack_score(old) + by;
        done = score != score ? UNUSUAL : (packed = pack_score(score)) == NULL ? FAILED : DONE;
    }
    if (done == DONE && is_counted) done = move_member(call, member, old, packed);
    else if (done == DONE && (done = open_zset(call, 1)) == DONE) {
        if (old == Py_None || memcmp(PyBytes_AS_STRING(old), PyBytes_AS_STRING(packed), 8))
            done = write_member(call->key, member, old, packed);
        if (done == DONE) done = grow(call->key, old == Py_None);
    }
    if (done == DONE && (*reply = PyFloat_FromDouble(score)) == NULL) done = FAILED;
    Py_XDECREF(old);
    Py_XDECREF(packed);
    return done;
}

/* One member of a set with rank counts, of which members are left. */
static int remove_ranked(Call *call, PyObject *member, PyObject **reply)
{
    int64_t size;
    PyObject *old = NULL;
    if (!has_size(call->key, &size) || size < 2) return UNUSUAL;
    int done = find_score(call, member, 1, &old), is_old = old != Py_None;
    if (done == DONE && is_old) done = move_member(call, member, old, Py_None);
    Py_XDECREF(old);
    if (done != DONE) return done;
    *reply = PyLong_FromLong(is_old);
    return *reply == NULL ? FAILED : DONE;
}

/* Of a set of which members are left. */
int do_zrem(Call *call, PyObject **reply)
{
    int64_t removed = 0, size;
    int done = find_key(call, call->args[0]);
    if (done != DONE) return done;
    if (call->type != NONE && call->count == 2 && is_ranked(call->key)) return remove_ranked(call, call->args[1], reply);
    if (call->type != NONE) {
        PyObject *key = call->key;
        if (plain_code(key) != ZSET || !has_size(key, &size) || size < call->count) return UNUSUAL;
        for (Py_ssize_t i = 1; done == DONE && i < call->count; i++) {
            PyObject *member = call->args[i], *old = get_subkey(at(key, KEY.data), member), *score_key = NULL;
            if (old == NULL) return FAILED;
            if (is_packed(old)) {
                score_key = joined(old, member);
                if (score_key == NULL || set_subkey(at(key, KEY.data), member, Py_None) < 0 ||
                    set_subkey(at(key, KEY.scores), score_key, Py_None) < 0)
                    done = FAILED;
                removed++;
            }
            else if (PyErr_Occurred()) done = FAILED;
            Py_DECREF(old);
            Py_XDECREF(score_key);
        }
        if (done == FAILED || grow(key, -removed) == FAILED) return FAILED;
    }
    *reply = PyLong_FromLongLong(removed);
    return *reply == NULL ? FAILED : DONE;
}
