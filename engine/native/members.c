/* The members of blocks of rank counts in memory, in `Stretches.members` beside their scores, so that a short range is answered
 * without a read of the store. Those of a block are read, all at once, when one asks for them the second time: a first read
 * of a place costs what it did. From then on each member that comes or goes by the part in C is worked in; Python lets a block's go.
 *
 * A piece of memory is changed in place, as nobody else has it: a copy of 2 KiB for each ZADD would take longer. */

#include "hot.h"

enum {
    PLACES = 128,       /* members of a block, at most: as `BLOCK_MAX` */
    MEMBER_MAX = 64,    /* bytes of a member */
    COUNT_BYTES = 160,  /* as in engine/batch/ranks/rank_records.py, */
    SCORES_BYTES = 1232,
    OBJECT_BYTES = 49,  /* to here */
    REFUSED_SHARE = 512, /* a quarter of what a block's members usually take */
};

typedef struct {
    uint16_t used; /* bytes of `entries` */
    uint16_t places[PLACES]; /* of the members in their order; what no place refers to is dead */
    unsigned char entries[]; /* of each its size, a byte, and the member */
} Members;

enum { PIECE_MAX = sizeof(Members) + PLACES * (1 + MEMBER_MAX) * 5 / 4 + OBJECT_BYTES };

static inline Members *members_in(PyObject *piece) { return (Members *)PyBytes_AS_STRING(piece); }
static inline Py_ssize_t room_of(PyObject *piece) { return PyBytes_GET_SIZE(piece) - (Py_ssize_t)sizeof(Members); }

/* Where `Stretches` have their members; NULL: they are not as expected. */
static PyObject *all_members(PyObject *blocks)
{
    PyObject *members = at(blocks, STRETCHES.members);
    return members != NULL && PyList_CheckExact(members) &&
           PyList_GET_SIZE(members) == PyList_GET_SIZE(at(blocks, STRETCHES.ends)) ? members : NULL;
}

/* What is held of a block, borrowed. */
static inline PyObject *held_at(PyObject *blocks, Py_ssize_t block)
{
    PyObject *members = all_members(blocks);
    return members == NULL ? Py_None : PyList_GET_ITEM(members, block);
}

/* Takes over the reference to `held`, the new members of a block. */
static int hold(PyObject *holders, PyObject *blocks, Py_ssize_t block, PyObject *held)
{
    PyObject *old = held_at(blocks, block);
    Py_ssize_t more = (is_bytes(held) ? PyBytes_GET_SIZE(held) + OBJECT_BYTES : 0) -
                      (is_bytes(old) ? PyBytes_GET_SIZE(old) + OBJECT_BYTES : 0);
    if (more && add_to(holders, HOLDERS.member_bytes, more) == FAILED) {
        Py_DECREF(held);
        return FAILED;
    }
    return PyList_SetItem(all_members(blocks), block, held) < 0 ? FAILED : DONE;
}

static PyObject *new_members(Py_ssize_t room)
{
    PyObject *piece = PyBytes_FromStringAndSize(NULL, sizeof(Members) + room);
    if (piece != NULL) members_in(piece)->used = 0;
    return piece;
}

/* Adds an entry, which has a place then; there is room. */
static uint16_t append(Members *members, const char *member, Py_ssize_t size)
{
    uint16_t place = members->used;
    members->entries[place] = (unsigned char)size;
    memcpy(members->entries + place + 1, member, size);
    members->used += 1 + size;
    return place;
}

const unsigned char *held_member(PyObject *blocks, Py_ssize_t block, Py_ssize_t number)
{
    const Members *members = members_in(held_at(blocks, block));
    return members->entries + members->places[number];
}

/* Whether members of a block have room among what rank counts may take in memory, with their scores if these are not held yet. Where
 * members had none for long, all are forgotten, as others are asked for now. FAILED: an error. */
static int has_room(PyObject *holders, int is_scored)
{
    int64_t records, scored, member_bytes, bytes_max, refused, scored_max;
    if (!as_int64(at(holders, HOLDERS.records), &records) || !as_int64(at(holders, HOLDERS.scored), &scored) ||
        !as_int64(at(holders, HOLDERS.member_bytes), &member_bytes) || !as_int64(at(holders, HOLDERS.bytes_max), &bytes_max) ||
        !as_int64(at(holders, HOLDERS.refused), &refused) || !as_int64(at(holders, HOLDERS.scored_max), &scored_max) ||
        scored + !is_scored > scored_max)
        return UNUSUAL;
    if (records * COUNT_BYTES + (scored + 1) * SCORES_BYTES + member_bytes + PIECE_MAX <= bytes_max) return DONE;
    if (refused < member_bytes / REFUSED_SHARE) return add_to(holders, HOLDERS.refused, 1) == FAILED ? FAILED : UNUSUAL;
    PyObject *none = member_bytes ? PyObject_CallMethod(holders, "forget_members", NULL) : Py_NewRef(Py_None);
    Py_XDECREF(none);
    return none == NULL ? FAILED : UNUSUAL;
}

PyObject *stored_keys(PyObject *key, PyObject *start, PyObject *end, Py_ssize_t most)
{
    PyObject *prefix = at(at(key, KEY.scores), SUBKEYS.prefix), *holders = at(at(key, KEY.ranks), RANKS.holders), *found = NULL;
    PyObject *first = joined(prefix, start), *last = joined(prefix, end);
    if (first != NULL && last != NULL) found = PyObject_CallFunction(at(holders, HOLDERS.keys), "OOn", first, last, most);
    Py_XDECREF(first);
    Py_XDECREF(last);
    return found;
}

int may_read_stored(PyObject *key)
{
    PyObject *scores = at(key, KEY.scores);
    return !PyDict_GET_SIZE(at(scores, SUBKEYS.changed)) && at(scores, SUBKEYS.fresh) == Py_False &&
           at(at(at(key, KEY.ranks), RANKS.holders), HOLDERS.keys) != NULL;
}

/* The members of these records, `count` of them, in one piece; False: one is too long. NULL without an error: they are not as expected. */
static PyObject *pack_members(PyObject *found, Py_ssize_t front, Py_ssize_t count)
{
    Py_ssize_t bytes = 0;
    if (!PyList_CheckExact(found) || PyList_GET_SIZE(found) != count) return NULL;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *record = PyList_GET_ITEM(found, i);
        if (!is_bytes(record) || PyBytes_GET_SIZE(record) < front) return NULL;
        if (PyBytes_GET_SIZE(record) - front > MEMBER_MAX) return Py_NewRef(Py_False);
        bytes += 1 + PyBytes_GET_SIZE(record) - front;
    }
    PyObject *piece = new_members(bytes + bytes / 4);
    for (Py_ssize_t i = 0; piece != NULL && i < count; i++) {
        PyObject *record = PyList_GET_ITEM(found, i);
        members_in(piece)->places[i] = append(members_in(piece), PyBytes_AS_STRING(record) + front, PyBytes_GET_SIZE(record) - front);
    }
    return piece;
}

/* Holds the scores of these records as those of a block, or compares them with those that are held. UNUSUAL: they are others. */
static int hold_scores(PyObject *ranks, PyObject *blocks, Py_ssize_t block, PyObject *found, Py_ssize_t front)
{
    PyObject *all = at(blocks, STRETCHES.scores), *held = PyList_GET_ITEM(all, block);
    Py_ssize_t count = PyList_GET_SIZE(found);
    PyObject *scores = PyBytes_FromStringAndSize(NULL, count * 8);
    if (scores == NULL) return FAILED;
    for (Py_ssize_t i = 0; i < count; i++)
        ((uint64_t *)PyBytes_AS_STRING(scores))[i] = parse((unsigned char *)PyBytes_AS_STRING(PyList_GET_ITEM(found, i)) + front - 8, 8);
    if (held != Py_None) {
        int is_equal = is_bytes(held) && PyBytes_GET_SIZE(held) == count * 8 &&
                       !memcmp(PyBytes_AS_STRING(held), PyBytes_AS_STRING(scores), count * 8);
        Py_DECREF(scores);
        return is_equal;
    }
    if (PyList_SetItem(all, block, scores) < 0 || add_to(ranks, RANKS.scores, 1) == FAILED) return FAILED;
    return add_to(at(ranks, RANKS.holders), HOLDERS.scored, 1);
}

/* Reads the members of a block, and its scores where they are not held. */
static int read_members(PyObject *key, PyObject *start, PyObject *blocks, Py_ssize_t block, Py_ssize_t count)
{
    PyObject *ranks = at(key, KEY.ranks), *holders = at(ranks, RANKS.holders);
    Py_ssize_t front = PyBytes_GET_SIZE(at(at(key, KEY.scores), SUBKEYS.prefix)) + 8;
    PyObject *found = stored_keys(key, start, PyList_GET_ITEM(at(blocks, STRETCHES.ends), block), count);
    PyObject *piece = found == NULL ? NULL : pack_members(found, front, count);
    int done = piece != NULL ? hold_scores(ranks, blocks, block, found, front) : PyErr_Occurred() ? FAILED : UNUSUAL;
    Py_XDECREF(found);
    int is_piece = is_bytes(piece);
    if (done == DONE && hold(holders, blocks, block, piece) == DONE) return is_piece;
    if (done != DONE) Py_XDECREF(piece);
    return PyErr_Occurred() ? FAILED : UNUSUAL;
}

int has_members(PyObject *key, PyObject *start, PyObject *blocks, Py_ssize_t block, Py_ssize_t count)
{
    PyObject *holders = at(at(key, KEY.ranks), RANKS.holders), *held = held_at(blocks, block);
    if (is_bytes(held)) return DONE;
    if (held == Py_False || count < 1 || count > PLACES || all_members(blocks) == NULL || !is_bytes(start)) return UNUSUAL;
    if (held == Py_None) return hold(holders, blocks, block, Py_NewRef(Py_True)) == FAILED ? FAILED : UNUSUAL;
    if (!may_read_stored(key)) return UNUSUAL;
    int done = has_room(holders, PyList_GET_ITEM(at(blocks, STRETCHES.scores), block) != Py_None);
    return done == DONE ? read_members(key, start, blocks, block, count) : done;
}

void fetch_members(PyObject *blocks, Py_ssize_t block)
{
    const char *from = (const char *)held_at(blocks, block);
    for (size_t i = 0; i < sizeof(PyBytesObject) + sizeof(Members); i += 64) __builtin_prefetch(from + i);
}

/* As `memcmp` of a member and the one at a place. */
static int compare(const char *member, Py_ssize_t size, const unsigned char *entry)
{
    int order = memcmp(member, entry + 1, size < entry[0] ? size : entry[0]);
    return order ? order : (size > entry[0]) - (size < entry[0]);
}

/* A piece of the same `count` members with room for `more` bytes, and a quarter. */
static PyObject *larger(const Members *members, Py_ssize_t count, Py_ssize_t more)
{
    Py_ssize_t bytes = more;
    for (Py_ssize_t i = 0; i < count; i++) bytes += 1 + members->entries[members->places[i]];
    PyObject *piece = new_members(bytes + bytes / 4);
    for (Py_ssize_t i = 0; piece != NULL && i < count; i++) {
        const unsigned char *entry = members->entries + members->places[i];
        members_in(piece)->places[i] = append(members_in(piece), (const char *)entry + 1, entry[0]);
    }
    return piece;
}

int move_in_members(PyObject *holders, PyObject *blocks, Py_ssize_t block, PyObject *score_key, int change, const uint64_t *scores,
    Py_ssize_t number, Py_ssize_t count)
{
    PyObject *held = held_at(blocks, block);
    if (held == Py_None || held == Py_True) return DONE;
    Py_ssize_t size = PyBytes_GET_SIZE(score_key) - 8;
    const char *member = PyBytes_AS_STRING(score_key) + 8;
    if (!is_bytes(held) || Py_REFCNT(held) != 1 || size > MEMBER_MAX || (change > 0 && count == PLACES))
        return hold(holders, blocks, block, Py_NewRef(Py_None));
    Members *members = members_in(held);
    uint64_t score = parse((const unsigned char *)member - 8, 8);
    int order = change > 0 || (number + 1 < count && scores[number + 1] == score); /* one that goes is found by its score alone */
    for (; order && number < count && scores[number] == score; number++) {
        order = compare(member, size, members->entries + members->places[number]);
        if (order <= 0) break;
    }
    uint16_t *place = members->places + number;
    if (change < 0) {
        if (order) return hold(holders, blocks, block, Py_NewRef(Py_None));
        memmove(place, place + 1, (count - number - 1) * sizeof *place);
        return DONE;
    }
    if (members->used + 1 + size > room_of(held)) {
        PyObject *piece = larger(members, count, 1 + size);
        if (piece == NULL || hold(holders, blocks, block, piece) == FAILED) return FAILED;
        members = members_in(piece);
        place = members->places + number;
    }
    memmove(place + 1, place, (count - number) * sizeof *place);
    *place = append(members, member, size);
    return DONE;
}
