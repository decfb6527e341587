/* The stretches of a level of rank counts: `Stretches` of engine/batch/ranks/rank_records.py. What is asked for again and
 * again stands beside their lists of objects as plain numbers, in order, in one piece of memory:
 *
 *     heads   the first eight bytes of each end, so that a search compares numbers
 *     sums    how many members each has together with those before it
 *
 * Among 10^6 members ZCOUNT took 11.0 us of CPU time before, and 5.4 among 10^3: half of the difference went to sums over
 * 200 objects, a fifth to searches in a list of ends (samples by perf, 2026-11-28). */

#include "hot.h"

enum { HEAD_BYTES = 8 };

static inline int is_list(PyObject *object) { return object != NULL && PyList_CheckExact(object); }

/* Whether these are stretches, as many ends as counts. */
int has_stretches(PyObject *stretches)
{
    return stretches != NULL && Py_TYPE(stretches) == stretches_type && is_list(at(stretches, STRETCHES.ends)) &&
           is_list(at(stretches, STRETCHES.counts)) &&
           PyList_GET_SIZE(at(stretches, STRETCHES.ends)) == PyList_GET_SIZE(at(stretches, STRETCHES.counts));
}

/* As bytes compare. */
int compare_bytes(PyObject *first, PyObject *second)
{
    Py_ssize_t size = PyBytes_GET_SIZE(first), other = PyBytes_GET_SIZE(second);
    int order = memcmp(PyBytes_AS_STRING(first), PyBytes_AS_STRING(second), size < other ? size : other);
    return order ? order : (size > other) - (size < other);
}

/* What a score key or an end begins with, as a number; a shorter one as if zeros followed. */
static inline uint64_t head(PyObject *key)
{
    Py_ssize_t size = PyBytes_GET_SIZE(key);
    const unsigned char *from = (const unsigned char *)PyBytes_AS_STRING(key);
    return size >= HEAD_BYTES ? parse(from, HEAD_BYTES) : parse(from, (int)size) << 8 * (HEAD_BYTES - size);
}

/* The numbers in a slot, if they are there; else NULL, and room for them, a new reference. */
static uint64_t *numbers_in(PyObject *stretches, Py_ssize_t slot, PyObject **room)
{
    Py_ssize_t size = PyList_GET_SIZE(at(stretches, STRETCHES.ends)) * (Py_ssize_t)sizeof(uint64_t);
    PyObject *held = at(stretches, slot);
    if (is_bytes(held) && PyBytes_GET_SIZE(held) == size) return (uint64_t *)PyBytes_AS_STRING(held);
    *room = PyBytes_FromStringAndSize(NULL, size);
    return NULL;
}

/* NULL without an error: an end is not as expected. */
static const uint64_t *heads_of(PyObject *stretches)
{
    PyObject *ends = at(stretches, STRETCHES.ends), *room = NULL;
    uint64_t *heads = numbers_in(stretches, STRETCHES.heads, &room);
    if (heads != NULL || room == NULL) return heads;
    heads = (uint64_t *)PyBytes_AS_STRING(room);
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(ends); i++) {
        if (!is_bytes(PyList_GET_ITEM(ends, i))) {
            Py_DECREF(room);
            return NULL;
        }
        heads[i] = head(PyList_GET_ITEM(ends, i));
    }
    put(stretches, STRETCHES.heads, room);
    return heads;
}

/* NULL without an error: a count is not as expected. */
static const uint64_t *sums_of(PyObject *stretches)
{
    PyObject *counts = at(stretches, STRETCHES.counts), *room = NULL;
    uint64_t *sums = numbers_in(stretches, STRETCHES.sums, &room), sum = 0;
    if (sums != NULL || room == NULL) return sums;
    sums = (uint64_t *)PyBytes_AS_STRING(room);
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(counts); i++) {
        int64_t count;
        if (!as_int64(PyList_GET_ITEM(counts, i), &count) || count < 0 || __builtin_add_overflow(sum, (uint64_t)count, &sum) ||
            sum > INT64_MAX) {
            Py_DECREF(room);
            return NULL;
        }
        sums[i] = sum;
    }
    put(stretches, STRETCHES.sums, room);
    return sums;
}

/* How many of these numbers, which ascend, are below one, or with `equal` not above it. */
static Py_ssize_t below(const uint64_t *numbers, Py_ssize_t count, uint64_t number, int equal)
{
    if (equal && number++ == UINT64_MAX) return count;
    const uint64_t *from = numbers;
    for (Py_ssize_t i = 0; i < count + 7; i += 8) __builtin_prefetch(numbers + i);
    for (Py_ssize_t left = count; left > 1; left -= left / 2) from += -(Py_ssize_t)(from[left / 2 - 1] < number) & (left / 2);
    return from - numbers + (count && *from < number);
}

/* The first stretch that ends above a score key; -1: there is none, or with an error. */
Py_ssize_t find_stretch(PyObject *stretches, PyObject *score_key)
{
    PyObject *ends = at(stretches, STRETCHES.ends);
    Py_ssize_t size = PyList_GET_SIZE(ends);
    const uint64_t *heads = heads_of(stretches);
    if (heads == NULL) return -1;
    uint64_t wanted = head(score_key);
    Py_ssize_t low = below(heads, size, wanted, 0), high = low;
    if (low < size && heads[low] == wanted) high = low + below(heads + low, size - low, wanted, 1);
    while (low < high) { /* ends of the same score: members decide */
        Py_ssize_t middle = (low + high) / 2;
        if (compare_bytes(score_key, PyList_GET_ITEM(ends, middle)) < 0) high = middle;
        else low = middle + 1;
    }
    return low < size ? low : -1;
}

/* Adds the members of the stretches before one of them. */
int add_before(PyObject *stretches, Py_ssize_t place, int64_t *sum)
{
    if (place == 0) return DONE;
    const uint64_t *sums = sums_of(stretches);
    if (sums == NULL) return PyErr_Occurred() ? FAILED : UNUSUAL;
    *sum += (int64_t)sums[place - 1];
    return DONE;
}

/* The stretch that has the member at `rank`, which becomes its number there; -1: none has, or with an error. As `_locate`. */
Py_ssize_t locate(PyObject *stretches, int64_t *rank)
{
    Py_ssize_t size = PyList_GET_SIZE(at(stretches, STRETCHES.counts));
    const uint64_t *sums = *rank < 0 ? NULL : sums_of(stretches);
    if (sums == NULL) return -1;
    Py_ssize_t place = below(sums, size, (uint64_t)*rank, 1);
    if (place == size) return -1;
    if (place) *rank -= (int64_t)sums[place - 1];
    return place;
}

/* Gives a stretch another count. Takes over the reference to it. */
void set_stretch(PyObject *stretches, Py_ssize_t place, PyObject *number)
{
    int64_t old, new;
    PyObject *counts = at(stretches, STRETCHES.counts), *sums = at(stretches, STRETCHES.sums);
    int known = as_int64(PyList_GET_ITEM(counts, place), &old) && as_int64(number, &new);
    if (known && is_bytes(sums) && PyBytes_GET_SIZE(sums) == PyList_GET_SIZE(counts) * (Py_ssize_t)sizeof(uint64_t)) {
        uint64_t *numbers = (uint64_t *)PyBytes_AS_STRING(sums); /* nobody else has them */
        for (Py_ssize_t i = place; i < PyList_GET_SIZE(counts); i++) numbers[i] += (uint64_t)(new - old);
    } else put_new(stretches, STRETCHES.sums, Py_None);
    put_new(stretches, STRETCHES.totals, Py_None);
    PyList_SetItem(counts, place, number);
}
