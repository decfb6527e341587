/* Answers reads of elements from memory, or of a hash's fields and a sorted set's members by one read of the store each:
 * twin of `resp.clients.running.fast_path.read` for the commands below, of sorted sets with rank counts alone;
 * and, by listings.c, of whole small collections.
 *
 *     HGET key field    ZRANK key member    ZCOUNT key min max    ZRANGE key start stop [BYSCORE LIMIT offset count]
 *     ZRANGEBYSCORE key min max LIMIT offset count
 *
 * It changes nothing. What is not as usual, such as scores of a block that are not in memory, it leaves to Python. */

#include "requests.h"

#include <strings.h>

enum { RUN_MAX = 64, RUN_BYTES = 1 << 16, WALKED_MAX = 16, FEW_MAX = 64, SETS_MAX = 16 };

/* Makes room for so many bytes more. */
char *reserve(Reader *reader, Py_ssize_t more)
{
    if (reader->room - reader->size < more) {
        Py_ssize_t room = 2 * reader->room + more;
        char *data = PyMem_Realloc(reader->data, room);
        if (data == NULL) return (char *)PyErr_NoMemory();
        reader->data = data;
        reader->room = room;
    }
    return reader->data + reader->size;
}

static int add_bulk(Reader *reader, const char *text, Py_ssize_t size)
{
    char *to = reserve(reader, size + 32);
    if (to == NULL) return FAILED;
    reader->size += write_bulk(to, text, size);
    return DONE;
}

int add_number(Reader *reader, char kind, int64_t number)
{
    char *to = reserve(reader, 32);
    if (to == NULL) return FAILED;
    reader->size += sprintf(to, "%c%lld\r\n", kind, (long long)number);
    return DONE;
}

static int add_null(Reader *reader)
{
    char *to = reserve(reader, 32);
    if (to == NULL) return FAILED;
    memcpy(to, PyBytes_AS_STRING(reader->null), PyBytes_GET_SIZE(reader->null));
    reader->size += PyBytes_GET_SIZE(reader->null);
    return DONE;
}

/* An integer. 0 counts as a key that is not there, as `Stats.count_empty` has it. */
static int answer_number(Reader *reader, int64_t number)
{
    reader->hits += number != 0;
    return add_number(reader, ':', number);
}

/* The key of this name if it is in memory and does not die by either clock, else NULL. Borrowed. */
PyObject *key_of(Reader *reader, PyObject *name)
{
    int64_t expire_ms;
    PyObject *key = PyDict_GetItemWithError(reader->keys, name);
    if (key == NULL || Py_TYPE(key) != key_type || !as_int64(at(key, KEY.expire_ms), &expire_ms)) return NULL;
    return expire_ms != 0 && expire_ms <= reader->latest_ms ? NULL : key;
}

/* Whether a sorted set's counts may be asked: it has some, and pops have left no hint. */
static int may_rank(Reader *reader, PyObject *key)
{
    if (!is_ranked(key) || !may_hold(reader->path, at(key, KEY.ranks))) return UNUSUAL;
    int hinted = has_hint(reader->path->tx, at(key, KEY.version));
    return hinted < 0 ? FAILED : !hinted;
}

static int answer_hget(Reader *reader, PyObject *command, PyObject *key)
{
    int type = plain_code(key);
    if (type == NONE) return add_null(reader);
    if (type != HASH) return UNUSUAL;
    PyObject *value = get_subkey(at(key, KEY.data), PyList_GET_ITEM(command, 2));
    if (value == NULL) return FAILED;
    int done = UNUSUAL;
    if (value == Py_None) done = add_null(reader);
    else if (PyBytes_CheckExact(value)) {
        reader->hits++;
        done = add_bulk(reader, PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value));
    }
    Py_DECREF(value);
    return done;
}

static int answer_zrank(Reader *reader, PyObject *command, PyObject *key)
{
    int64_t rank;
    if (plain_code(key) == NONE) return add_null(reader);
    int done = may_rank(reader, key);
    if (done != DONE) return done;
    PyObject *member = PyList_GET_ITEM(command, 2), *score = get_subkey(at(key, KEY.data), member);
    if (score == NULL) return FAILED;
    if (score == Py_None) done = add_null(reader);
    else if (!PyBytes_CheckExact(score) || PyBytes_GET_SIZE(score) != 8) done = UNUSUAL;
    else {
        PyObject *score_key = joined(score, member);
        done = score_key == NULL ? FAILED : find_place(at(key, KEY.ranks), score_key, 1, &rank);
        Py_XDECREF(score_key);
        if (done == DONE) done = answer_number(reader, rank);
    }
    Py_DECREF(score);
    return done;
}

/* One end of a range of scores, packed: a member is in it whose score is not below the lower one, and below the upper one.
 * As `_score_bound`, of infinities and integers. */
static PyObject *bound_of(PyObject *text, int is_upper)
{
    const char *from = PyBytes_AS_STRING(text), *end = from + PyBytes_GET_SIZE(text);
    int is_exclusive = from < end && *from == '(';
    from += is_exclusive;
    int negative = from < end && *from == '-';
    const char *digits = from + (from < end && (*from == '-' || *from == '+'));
    double score;
    if (end - digits == 3 && !memcmp(digits, "inf", 3)) score = Py_HUGE_VAL;
    else {
        int64_t number = 0;
        if (digits >= end || end - digits > 15) return NULL;
        for (const char *digit = digits; digit < end; digit++) {
            if (*digit < '0' || *digit > '9') return NULL;
            number = number * 10 + (*digit - '0');
        }
        score = (double)number; /* exact */
    }
    PyObject *packed = pack_score(negative ? -score : score);
    if (packed != NULL && is_exclusive != is_upper)
        pack(PyBytes_AS_STRING(packed), parse((unsigned char *)PyBytes_AS_STRING(packed), 8) + 1, 8);
    return packed;
}

/* Both ends of the range of scores of a command, new references. UNUSUAL: Python has to read them. */
static int bounds_of(PyObject *command, PyObject *bounds[2])
{
    bounds[0] = bound_of(PyList_GET_ITEM(command, 2), 0);
    bounds[1] = bounds[0] == NULL ? NULL : bound_of(PyList_GET_ITEM(command, 3), 1);
    if (bounds[1] != NULL) return DONE;
    Py_CLEAR(bounds[0]);
    return PyErr_Occurred() ? FAILED : UNUSUAL;
}

static int answer_zcount(Reader *reader, PyObject *command, PyObject *key)
{
    int64_t ranks[2] = {0};
    PyObject *bounds[2];
    int done = bounds_of(command, bounds);
    if (done != DONE) return done;
    if (plain_code(key) != NONE) done = may_rank(reader, key);
    for (int i = 0; done == DONE && i < 2 && plain_code(key) != NONE; i++)
        done = find_place(at(key, KEY.ranks), bounds[i], 0, &ranks[i]);
    Py_DECREF(bounds[0]);
    Py_DECREF(bounds[1]);
    return done == DONE ? answer_number(reader, ranks[1] > ranks[0] ? ranks[1] - ranks[0] : 0) : done;
}

/* From the member with this number in a block on, up to `wanted` whose scores are below `upper` (NULL: all), from memory alone. */
static int answer_held(Reader *reader, PyObject *key, Block *block, int64_t number, Py_ssize_t wanted, const uint64_t *upper)
{
    Py_ssize_t size = reader->size, found = 0;
    int done = add_number(reader, '*', wanted);
    while (done == DONE && found < wanted) {
        if (number >= block->count) {
            number -= block->count;
            done = next_members(key, block);
            if (done == DONE && block->count == 0) break;
        }
        else if (upper != NULL && block->scores[number] >= *upper) break;
        else {
            const unsigned char *member = held_member(block->blocks, block->block, number++);
            done = add_bulk(reader, (const char *)member + 1, member[0]);
            found++;
        }
    }
    if (done == DONE && found < wanted) { /* the reply begins with how many there are */
        char head[24], *from = reader->data + size;
        Py_ssize_t before = wanted > 9 ? 5 : 4, after = sprintf(head, "*%zd\r\n", found);
        if (upper == NULL) done = UNUSUAL;
        memmove(from + after, from + before, reader->size - size - before);
        memcpy(from, head, after);
        reader->size += after - before;
    }
    if (done == DONE) reader->hits += found > 0;
    else reader->size = size;
    return done;
}

/* Members from `start` up to `end`, without the first `skipped`: just `wanted` of them, which are read. */
static int answer_members(Reader *reader, PyObject *key, PyObject *start, PyObject *end, Py_ssize_t skipped, Py_ssize_t wanted)
{
    if (!may_read_stored(key)) return UNUSUAL;
    PyObject *found = stored_keys(key, start, end, skipped + wanted);
    if (found == NULL) return FAILED;
    Py_ssize_t front = PyBytes_GET_SIZE(at(at(key, KEY.scores), SUBKEYS.prefix)) + 8;
    int done = PyList_CheckExact(found) && PyList_GET_SIZE(found) == skipped + wanted ? add_number(reader, '*', wanted) : UNUSUAL;
    for (Py_ssize_t i = skipped; done == DONE && i < skipped + wanted; i++) {
        PyObject *record = PyList_GET_ITEM(found, i);
        if (!is_bytes(record) || PyBytes_GET_SIZE(record) < front) done = UNUSUAL;
        else done = add_bulk(reader, PyBytes_AS_STRING(record) + front, PyBytes_GET_SIZE(record) - front);
        if (reader->size > 4 * RUN_BYTES) done = UNUSUAL; /* whether that is too much for a reply Python has to say */
    }
    Py_DECREF(found);
    if (done == DONE) reader->hits++;
    return done;
}

/* By rank. */
static int answer_ranks(Reader *reader, PyObject *command, PyObject *key)
{
    int64_t first, last, size, skipped;
    if (!parse_int(PyList_GET_ITEM(command, 2), &first) || !parse_int(PyList_GET_ITEM(command, 3), &last) || !has_size(key, &size))
        return UNUSUAL;
    first = first < 0 ? first + size : first;
    last = last < 0 ? last + size : last;
    if (first < 0) first = 0;
    if (last >= size) last = size - 1;
    if (first > last || last - first >= FEW_MAX) return UNUSUAL;
    PyObject *start = NULL, *end;
    Block block;
    int64_t number = first;
    int done = find_members(key, &number, &block);
    if (done == DONE) done = answer_held(reader, key, &block, number, last + 1 - first, NULL);
    if (done != UNUSUAL) return done;
    if ((end = PyBytes_FromStringAndSize("\xff\xff", 2)) == NULL) return FAILED; /* above every score key */
    done = DONE;
    if (first > WALKED_MAX) done = find_rank(at(key, KEY.ranks), first, &start, &skipped);
    else {
        start = Py_NewRef(empty_bytes);
        skipped = first;
    }
    if (done == DONE) done = answer_members(reader, key, start, end, skipped, last + 1 - first);
    Py_XDECREF(start);
    Py_DECREF(end);
    return done;
}

static int is_word(PyObject *text, const char *word)
{
    return PyBytes_GET_SIZE(text) == (Py_ssize_t)strlen(word) && !strncasecmp(PyBytes_AS_STRING(text), word, strlen(word));
}

/* At most `limit` of the members between two bounds from an offset on, from memory alone. */
static int answer_held_scores(Reader *reader, PyObject *key, PyObject *bounds[2], int64_t offset, int64_t limit)
{
    Block block;
    int64_t number, size;
    uint64_t upper = parse((unsigned char *)PyBytes_AS_STRING(bounds[1]), 8);
    if (offset <= WALKED_MAX) {
        int done = find_members_by(key, bounds[0], &number, &block);
        return done == DONE ? answer_held(reader, key, &block, number + offset, limit, &upper) : done;
    }
    int done = find_place(at(key, KEY.ranks), bounds[0], 0, &number);
    if (done != DONE) return done;
    if (!has_size(key, &size) || offset >= size - number) return UNUSUAL;
    number += offset;
    done = find_members(key, &number, &block);
    return done == DONE ? answer_held(reader, key, &block, number, limit, &upper) : done;
}

/* By score, with a LIMIT, which stands `at`. */
static int answer_scores(Reader *reader, PyObject *command, PyObject *key, Py_ssize_t at)
{
    int64_t offset, limit;
    PyObject *bounds[2];
    if (PyList_GET_SIZE(command) != at + 3 || !is_word(PyList_GET_ITEM(command, at), "LIMIT") ||
        !parse_int(PyList_GET_ITEM(command, at + 1), &offset) || !parse_int(PyList_GET_ITEM(command, at + 2), &limit) ||
        offset < 0 || limit < 1 || limit > FEW_MAX)
        return UNUSUAL;
    int done = bounds_of(command, bounds);
    if (done != DONE) return done;
    done = answer_held_scores(reader, key, bounds, offset, limit);
    if (done == UNUSUAL && offset <= WALKED_MAX) done = answer_members(reader, key, bounds[0], bounds[1], offset, limit);
    Py_DECREF(bounds[0]);
    Py_DECREF(bounds[1]);
    return done;
}

static int answer_zrange(Reader *reader, PyObject *command, PyObject *key, int is_by_score)
{
    int done = may_rank(reader, key);
    if (done != DONE) return done;
    if (is_by_score) return answer_scores(reader, command, key, 4);
    if (PyList_GET_SIZE(command) == 4) return answer_ranks(reader, command, key);
    return is_word(PyList_GET_ITEM(command, 4), "BYSCORE") ? answer_scores(reader, command, key, 5) : UNUSUAL;
}

/* Whether the keys of a command are in one slot, where there are several partitions. */
static int share_slot(Reader *reader, PyObject *command)
{
    Py_ssize_t words = PyList_GET_SIZE(command);
    unsigned int first = 0;
    for (Py_ssize_t i = 1; PyTuple_GET_SIZE(reader->served) > 1 && i < words; i++) {
        PyObject *key = PyList_GET_ITEM(command, i);
        unsigned int slot = slot_of(PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key));
        if (i > 1 && slot != first) return UNUSUAL;
        first = slot;
    }
    return DONE;
}

/* Answers a command of one kind, by the name of the first one. */
static int answer(Reader *reader, int kind, PyObject *command, PyObject *name)
{
    static const Py_ssize_t least[] = {0, 3, 3, 4, 4, 4, 2, 2, 2, 4, 2, 2}, most[] = {0, 3, 3, 4, 8, 7, 2, 2, 2, 4, 2, SETS_MAX + 1};
    if (!PyList_CheckExact(command)) return UNUSUAL;
    Py_ssize_t words = PyList_GET_SIZE(command);
    if (words < least[kind] || words > most[kind]) return UNUSUAL;
    for (Py_ssize_t i = 0; i < words; i++)
        if (!is_bytes(PyList_GET_ITEM(command, i))) return UNUSUAL;
    PyObject *word = PyList_GET_ITEM(command, 0);
    if (word != name && (PyBytes_GET_SIZE(word) != PyBytes_GET_SIZE(name) ||
            memcmp(PyBytes_AS_STRING(word), PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name)))) return UNUSUAL;
    int done = kind == READS_SINTER ? share_slot(reader, command) : DONE;
    if (done == DONE) done = go_to(reader, PyList_GET_ITEM(command, 1));
    PyObject *key = done == DONE ? key_of(reader, PyList_GET_ITEM(command, 1)) : NULL;
    if (key == NULL) return PyErr_Occurred() ? FAILED : UNUSUAL;
    Py_INCREF(key);
    done = UNUSUAL;
    if (kind == READS_HGET) done = answer_hget(reader, command, key);
    else if (kind == READS_ZRANK) done = answer_zrank(reader, command, key);
    else if (kind == READS_ZCOUNT) done = answer_zcount(reader, command, key);
    else if (kind < READS_HGETALL) done = answer_zrange(reader, command, key, kind == READS_ZRANGEBYSCORE);
    else done = answer_whole(reader, kind, command, key);
    Py_DECREF(key);
    return done;
}

PyObject *read_elements(Reader *reader, int kind, PyObject *commands, Py_ssize_t from, PyObject *parts)
{
    PyObject *first = PyList_GET_ITEM(commands, from), *data = NULL;
    PyObject *name = PyList_CheckExact(first) && PyList_GET_SIZE(first) ? PyList_GET_ITEM(first, 0) : NULL;
    Py_ssize_t found = 0;
    while (is_bytes(name) && found < RUN_MAX && from + found < PyList_GET_SIZE(commands) && reader->size < RUN_BYTES) {
        Py_ssize_t size = reader->size, hits = reader->hits;
        if (found % AHEAD_MAX == 1) look_ahead(reader, kind, commands, from + found); /* not where the first is Python's */
        int done = answer(reader, kind, PyList_GET_ITEM(commands, from + found), name);
        if (done != DONE) { /* also where the store has failed: Python asks it again, and has the words for it */
            PyErr_Clear();
            reader->size = size;
            reader->hits = hits;
            break;
        }
        found++;
    }
    int failed = 0;
    if (found) {
        data = PyBytes_FromStringAndSize(reader->data, reader->size);
        failed = data == NULL || PyList_Append(parts, data) < 0;
        Py_XDECREF(data);
    }
    PyMem_Free(reader->data);
    return failed ? NULL : Py_BuildValue("nnn", from + found, reader->hits, reader->size);
}
