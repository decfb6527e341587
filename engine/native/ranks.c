/* The rank counts of large sorted sets, where no block or group is split or joined: twin of engine/batch/ranks/rank_counts.py.
 * stretches.c searches in a level of them. */

#include "hot.h"

#include <math.h>

static inline int is_list(PyObject *object) { return object != NULL && PyList_CheckExact(object); }

/* Whether it is a sorted set with rank counts, of which those that are needed may be in memory. */
int is_ranked(PyObject *key)
{
    PyObject *ranks = Py_TYPE(key) == key_type ? at(key, KEY.ranks) : NULL;
    if (ranks == NULL || Py_TYPE(ranks) != ranks_type || at(key, KEY.times) != Py_None || code_of(key) != ZSET) return 0;
    PyObject *version = at(key, KEY.version);
    return version != NULL && PyLong_CheckExact(version) && version != zero && is_subkeys(at(key, KEY.data)) &&
           is_subkeys(at(key, KEY.scores)) && is_dict(at(ranks, SUBKEYS.changed)) && is_bytes(at(ranks, SUBKEYS.prefix));
}

/* Where `Stretches` have their scores. NULL without an error: they are not as expected. */
static PyObject *all_scores(PyObject *blocks)
{
    PyObject *scores = at(blocks, STRETCHES.scores);
    return is_list(scores) && PyList_GET_SIZE(scores) == PyList_GET_SIZE(at(blocks, STRETCHES.ends)) ? scores : NULL;
}

/* The scores of a block in memory, as numbers in order; NULL without an error: they are not, or not as many as are counted.
 * They stand until it changes. */
static const uint64_t *scores_of(PyObject *blocks, Py_ssize_t block, Py_ssize_t *count)
{
    int64_t before = 0, with = 0;
    PyObject *scores = all_scores(blocks), *held = scores != NULL ? PyList_GET_ITEM(scores, block) : NULL;
    if (!is_bytes(held) || add_before(blocks, block, &before) != DONE || add_before(blocks, block + 1, &with) != DONE) return NULL;
    *count = PyBytes_GET_SIZE(held) / 8;
    return *count == with - before ? (const uint64_t *)PyBytes_AS_STRING(held) : NULL;
}

/* What a score key, or a bound of eight bytes, begins with. */
static inline uint64_t score_of(PyObject *score_key) { return parse((const unsigned char *)PyBytes_AS_STRING(score_key), 8); }

static inline void fetch(const uint64_t *scores, Py_ssize_t count)
{
    for (Py_ssize_t i = 0; i < count + 7; i += 8) __builtin_prefetch(scores + i);
}

/* How many of these scores are below `score`. All are fetched at once, as no step then waits for memory by itself. */
static Py_ssize_t below(const uint64_t *scores, Py_ssize_t count, uint64_t score)
{
    const uint64_t *from = scores;
    fetch(scores, count);
    for (Py_ssize_t left = count; left > 1; left -= left / 2) from += -(Py_ssize_t)(from[left / 2 - 1] < score) & (left / 2);
    return from - scores + (count && *from < score);
}

/* The blocks of a group, borrowed; NULL without an error: they are not in memory. */
static PyObject *blocks_of(PyObject *ranks, PyObject *groups, Py_ssize_t group)
{
    if (!is_dict(at(ranks, RANKS.blocks))) return NULL;
    PyObject *blocks = PyDict_GetItemWithError(at(ranks, RANKS.blocks), PyList_GET_ITEM(at(groups, STRETCHES.ends), group));
    return has_stretches(blocks) ? blocks : NULL;
}

/* Where a block of a group begins: the end of what is before it. Borrowed. */
static PyObject *start_of(PyObject *groups, Py_ssize_t group, PyObject *blocks, Py_ssize_t block)
{
    if (block) return PyList_GET_ITEM(at(blocks, STRETCHES.ends), block - 1);
    return group ? PyList_GET_ITEM(at(groups, STRETCHES.ends), group - 1) : empty_bytes;
}

/* How many members are below a score key, or below a bound of eight bytes, from memory alone; `is_there`: it is that of a
 * member. As `rank_counts.place`. */
int find_place(PyObject *ranks, PyObject *score_key, int is_there, int64_t *rank)
{
    PyObject *groups = at(ranks, RANKS.groups), *blocks;
    if (!has_stretches(groups)) return UNUSUAL;
    Py_ssize_t count, group = find_stretch(groups, score_key);
    if (group < 0 || (blocks = blocks_of(ranks, groups, group)) == NULL) return PyErr_Occurred() ? FAILED : UNUSUAL;
    Py_ssize_t block = find_stretch(blocks, score_key);
    if (block < 0) return PyErr_Occurred() ? FAILED : UNUSUAL;
    const uint64_t *scores = scores_of(blocks, block, &count);
    if (scores == NULL) return PyErr_Occurred() ? FAILED : UNUSUAL;
    uint64_t score = score_of(score_key);
    Py_ssize_t lower = below(scores, count, score);
    int is_alone = lower < count && scores[lower] == score && (lower + 1 == count || scores[lower + 1] != score);
    if (is_there && !is_alone) return UNUSUAL; /* members of the same score have to be read */
    *rank = lower;
    int done = add_before(groups, group, rank);
    return done == DONE ? add_before(blocks, block, rank) : done;
}

/* Where to begin a walk to the member at `rank`, a new reference, and how many members to pass, from memory alone. As
 * `rank_counts.find`. */
int find_rank(PyObject *ranks, int64_t rank, PyObject **start, int64_t *skipped)
{
    PyObject *groups = at(ranks, RANKS.groups), *blocks;
    if (!has_stretches(groups)) return UNUSUAL;
    Py_ssize_t count, group = locate(groups, &rank);
    if (group < 0 || (blocks = blocks_of(ranks, groups, group)) == NULL) return PyErr_Occurred() ? FAILED : UNUSUAL;
    Py_ssize_t block = locate(blocks, &rank);
    if (block < 0) return PyErr_Occurred() ? FAILED : UNUSUAL;
    const uint64_t *scores = scores_of(blocks, block, &count);
    if (scores == NULL) return PyErr_Occurred() ? FAILED : UNUSUAL;
    uint64_t score = scores[rank];
    *skipped = rank - below(scores, count, score);
    PyObject *packed = PyBytes_FromStringAndSize(NULL, 8), *end = start_of(groups, group, blocks, block);
    if (packed == NULL) return FAILED;
    pack(PyBytes_AS_STRING(packed), score, 8);
    if (is_bytes(end) && compare_bytes(end, packed) > 0) Py_SETREF(packed, Py_NewRef(end));
    *start = packed;
    return DONE;
}

/* Whether the members of a block are in memory, which is found. */
static int is_held(PyObject *key, PyObject *groups, Block *found)
{
    int64_t before = 0, with = 0;
    int done = add_before(found->blocks, found->block, &before);
    if (done == DONE) done = add_before(found->blocks, found->block + 1, &with);
    PyObject *start = start_of(groups, found->group, found->blocks, found->block);
    if (done == DONE) done = all_scores(found->blocks) == NULL ? UNUSUAL : has_members(key, start, found->blocks, found->block, with - before);
    if (done != DONE) return done;
    found->scores = scores_of(found->blocks, found->block, &found->count);
    return found->scores != NULL ? DONE : PyErr_Occurred() ? FAILED : UNUSUAL;
}

/* Goes to the block that has the member at `rank`, which becomes its number there. UNUSUAL: the block or its members are not in
 * memory. They stand until the set changes. */
int find_members(PyObject *key, int64_t *rank, Block *found)
{
    PyObject *ranks = at(key, KEY.ranks), *groups = at(ranks, RANKS.groups);
    if (!has_stretches(groups)) return UNUSUAL;
    found->group = locate(groups, rank);
    found->blocks = found->group < 0 ? NULL : blocks_of(ranks, groups, found->group);
    found->block = found->blocks == NULL ? -1 : locate(found->blocks, rank);
    return found->block >= 0 ? is_held(key, groups, found) : PyErr_Occurred() ? FAILED : UNUSUAL;
}

/* As `find_members`, of the first member that is not below a bound of scores; `number` is how many of its block are. */
int find_members_by(PyObject *key, PyObject *bound, int64_t *number, Block *found)
{
    PyObject *ranks = at(key, KEY.ranks), *groups = at(ranks, RANKS.groups);
    if (!has_stretches(groups)) return UNUSUAL;
    found->group = find_stretch(groups, bound);
    found->blocks = found->group < 0 ? NULL : blocks_of(ranks, groups, found->group);
    found->block = found->blocks == NULL ? -1 : find_stretch(found->blocks, bound);
    int done = found->block >= 0 ? is_held(key, groups, found) : PyErr_Occurred() ? FAILED : UNUSUAL;
    if (done == DONE) *number = below(found->scores, found->count, score_of(bound));
    return done;
}

/* As `find_members`, of the block behind one; its `count` is 0 where there is none. */
int next_members(PyObject *key, Block *found)
{
    PyObject *ranks = at(key, KEY.ranks), *groups = at(ranks, RANKS.groups);
    if (++found->block == PyList_GET_SIZE(at(found->blocks, STRETCHES.ends))) {
        found->block = 0;
        if (++found->group == PyList_GET_SIZE(at(groups, STRETCHES.ends))) {
            found->count = 0;
            return DONE;
        }
        found->blocks = blocks_of(ranks, groups, found->group);
        if (found->blocks == NULL) return PyErr_Occurred() ? FAILED : UNUSUAL;
    }
    return is_held(key, groups, found);
}

/* The members that a group may have in a set of so many, as `_count_max`. */
static int64_t group_max(Path *path, int64_t size)
{
    int64_t members = size * path->block_max, root = (int64_t)sqrt((double)members);
    while (root * root > members) root--;
    while ((root + 1) * (root + 1) <= members) root++;
    return root > path->group_max ? root : path->group_max;
}

/* As `_shrank`. */
static inline int shrank(int64_t old, int64_t new, int64_t count_max)
{
    return (new < count_max / 4 && count_max / 4 <= old) || !new;
}

/* One score key that comes (1) or goes (-1), and the block and group that count it: so many then. */
typedef struct {
    PyObject *score_key;
    int change;
    PyObject *groups, *blocks; /* borrowed */
    Py_ssize_t group, block;   /* among them */
    int64_t in_group, in_block;
} Count;

/* The scores of the block of a count, borrowed; None: they are not in memory. NULL with an error: they are not as expected. */
static PyObject *held_scores(const Count *count)
{
    PyObject *scores = all_scores(count->blocks), *held = scores != NULL ? PyList_GET_ITEM(scores, count->block) : NULL;
    if (held == Py_None || is_bytes(held)) return held;
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "the scores of a block are not as expected");
    return NULL;
}

/* How many of these scores are below that of a count, of `size` in all. */
static Py_ssize_t lower_scores(PyObject *held, const Count *count, Py_ssize_t *size)
{
    *size = PyBytes_GET_SIZE(held) / 8;
    return below((const uint64_t *)PyBytes_AS_STRING(held), *size, score_of(count->score_key));
}

/* Whether a score may leave those in memory, if they are: it is among them. Else Python says what is wrong. */
static int may_leave(const Count *count)
{
    Py_ssize_t size;
    PyObject *held = held_scores(count);
    if (held == NULL) return FAILED;
    if (held == Py_None || count->change > 0) return DONE;
    Py_ssize_t lower = lower_scores(held, count, &size);
    return lower < size && ((const uint64_t *)PyBytes_AS_STRING(held))[lower] == score_of(count->score_key) ? DONE : UNUSUAL;
}

/* As `moved` in engine/batch/ranks/rank_scores.py; a score that leaves is there, see `may_leave`. */
static int move_score(const Count *count, PyObject *holders)
{
    Py_ssize_t size;
    PyObject *held = held_scores(count);
    if (held == NULL) return FAILED;
    if (held == Py_None) return DONE;
    Py_ssize_t lower = lower_scores(held, count, &size), passed = lower + (count->change < 0);
    PyObject *moved = PyBytes_FromStringAndSize(NULL, (size + count->change) * 8);
    if (moved == NULL) return FAILED;
    const uint64_t *from = (const uint64_t *)PyBytes_AS_STRING(held);
    if (move_in_members(holders, count->blocks, count->block, count->score_key, count->change, from, lower, size) == FAILED) {
        Py_DECREF(moved);
        return FAILED;
    }
    uint64_t *to = (uint64_t *)PyBytes_AS_STRING(moved);
    memcpy(to, from, lower * 8);
    if (count->change > 0) to[lower] = score_of(count->score_key);
    memcpy(to + lower + (count->change > 0), from + passed, (size - passed) * 8);
    return PyList_SetItem(all_scores(count->blocks), count->block, moved) < 0 ? FAILED : DONE;
}

/* Finds what counts a score key, `before` (NULL: nothing) being counted already. UNUSUAL: it is not in memory, or it would
 * be split or joined. */
static int plan(Path *path, PyObject *ranks, int64_t size, const Count *before, Count *count)
{
    PyObject *groups = at(ranks, RANKS.groups), *blocks;
    if (!has_stretches(groups) || !is_dict(at(ranks, RANKS.blocks))) return UNUSUAL;
    Py_ssize_t group = find_stretch(groups, count->score_key);
    if (group < 0) return PyErr_Occurred() ? FAILED : UNUSUAL;
    blocks = PyDict_GetItemWithError(at(ranks, RANKS.blocks), PyList_GET_ITEM(at(groups, STRETCHES.ends), group));
    if (blocks == NULL && PyErr_Occurred()) return FAILED;
    if (!has_stretches(blocks)) return UNUSUAL;
    Py_ssize_t block = find_stretch(blocks, count->score_key);
    int64_t in_group, in_block;
    if (block < 0 && PyErr_Occurred()) return FAILED;
    if (block < 0 || !as_int64(PyList_GET_ITEM(at(groups, STRETCHES.counts), group), &in_group) ||
        !as_int64(PyList_GET_ITEM(at(blocks, STRETCHES.counts), block), &in_block))
        return UNUSUAL;
    if (before != NULL && before->group == group) in_group = before->in_group;
    if (before != NULL && before->blocks == blocks && before->block == block) in_block = before->in_block;
    *count = (Count){count->score_key, count->change, groups, blocks, group, block, in_group + count->change, in_block + count->change};
    PyObject *held = held_scores(count);
    if (held == NULL) return FAILED;
    if (is_bytes(held)) fetch((const uint64_t *)PyBytes_AS_STRING(held), PyBytes_GET_SIZE(held) / 8);
    fetch_members(blocks, block);
    int64_t most = group_max(path, size);
    if (count->change > 0) return count->in_block > path->block_max || count->in_group > most ? UNUSUAL : DONE;
    if (count->in_block < 0 || count->in_block > count->in_group) return UNUSUAL;
    return shrank(in_block, count->in_block, path->block_max) || shrank(in_group, count->in_group, most) ? UNUSUAL : DONE;
}

static int set_count(PyObject *ranks, PyObject *stretches, Py_ssize_t place, char level, int64_t count)
{
    PyObject *end = PyList_GET_ITEM(at(stretches, STRETCHES.ends), place), *number = PyLong_FromLongLong(count);
    PyObject *record = PyBytes_FromStringAndSize(NULL, 1 + PyBytes_GET_SIZE(end)), *packed = PyBytes_FromStringAndSize(NULL, 8);
    int failed = number == NULL || record == NULL || packed == NULL;
    if (!failed) {
        PyBytes_AS_STRING(record)[0] = level;
        memcpy(PyBytes_AS_STRING(record) + 1, PyBytes_AS_STRING(end), PyBytes_GET_SIZE(end));
        pack(PyBytes_AS_STRING(packed), (uint64_t)count, 8);
        set_stretch(stretches, place, Py_NewRef(number));
        failed = set_subkey(ranks, record, packed) < 0;
    }
    Py_XDECREF(number);
    Py_XDECREF(record);
    Py_XDECREF(packed);
    return failed ? FAILED : DONE;
}

/* Whether what is held in memory is not to be forgotten now, as `_groups` does. */
int may_hold(Path *path, PyObject *ranks)
{
    int64_t records, scored;
    PyObject *holders = at(ranks, RANKS.holders);
    return holders != NULL && Py_TYPE(holders) == holders_type && as_int64(at(holders, HOLDERS.records), &records) &&
           as_int64(at(holders, HOLDERS.scored), &scored) && records <= path->held_max && scored <= path->scored_max;
}

/* Counts a member of a ranked set, of `size` members then, whose score key was `old_key` and is `score_key`; NULL: none. */
static int count_move(Call *call, PyObject *ranks, PyObject *old_key, PyObject *score_key, int64_t size, int (*then)(void *), void *what)
{
    Count counts[2];
    int number = 0, done = DONE;
    if (old_key != NULL) counts[number++] = (Count){.score_key = old_key, .change = -1};
    if (score_key != NULL) counts[number++] = (Count){.score_key = score_key, .change = 1};
    if (number == 2 && compare_bytes(old_key, score_key) > 0) {
        Count first = counts[0];
        counts[0] = counts[1];
        counts[1] = first;
    }
    if (!may_hold(call->run->path, ranks) || size < 1 || size > (1LL << 40)) return UNUSUAL;
    for (int i = 0; done == DONE && i < number; i++)
        done = plan(call->run->path, ranks, size, i ? counts : NULL, counts + i);
    for (int i = 0; done == DONE && i < number; i++) done = may_leave(counts + i);
    if (done == DONE) done = then(what);
    for (int i = 0; done == DONE && i < number; i++) {
        done = set_count(ranks, counts[i].blocks, counts[i].block, 1, counts[i].in_block);
        if (done == DONE) done = set_count(ranks, counts[i].groups, counts[i].group, 2, counts[i].in_group);
        if (done == DONE) done = move_score(counts + i, at(ranks, RANKS.holders));
    }
    return done;
}

/* A member whose packed score was `old` and is `score`; None: it is not there. */
typedef struct {
    PyObject *key, *member, *score, *old_key, *score_key;
    int64_t added;
} Move;

static int write_move(void *what)
{
    Move *move = what;
    PyObject *scores = at(move->key, KEY.scores);
    if (move->old_key != NULL && set_subkey(scores, move->old_key, Py_None) < 0) return FAILED;
    if (set_subkey(at(move->key, KEY.data), move->member, move->score) < 0) return FAILED;
    if (move->score_key != NULL && set_subkey(scores, move->score_key, empty_bytes) < 0) return FAILED;
    return grow(move->key, move->added);
}

int move_ranked(Call *call, PyObject *member, PyObject *old, PyObject *score)
{
    int64_t size;
    PyObject *key = call->key;
    if (!is_ranked(key) || !has_size(key, &size)) return UNUSUAL;
    Move move = {key, member, score, NULL, NULL, (old == Py_None) - (score == Py_None)};
    if (old != Py_None && (move.old_key = joined(old, member)) == NULL) return FAILED;
    if (score != Py_None && (move.score_key = joined(score, member)) == NULL) {
        Py_XDECREF(move.old_key);
        return FAILED;
    }
    int done = count_move(call, at(key, KEY.ranks), move.old_key, move.score_key, size + move.added, write_move, &move);
    Py_XDECREF(move.old_key);
    Py_XDECREF(move.score_key);
    return done;
}

/* Whether the groups that are held, if any, have `size` members in all; as `check_total`. */
int is_total(PyObject *ranks, uint64_t size)
{
    PyObject *groups = at(ranks, RANKS.groups);
    if (groups == Py_None) return 1;
    if (!has_stretches(groups)) return 0;
    int64_t sum = 0, count;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(at(groups, STRETCHES.counts)); i++) {
        if (!as_int64(PyList_GET_ITEM(at(groups, STRETCHES.counts), i), &count) || __builtin_add_overflow(sum, count, &sum)) return 0;
    }
    return sum >= 0 && (uint64_t)sum == size;
}
