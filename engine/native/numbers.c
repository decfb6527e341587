/* Integers as commands read them, and doubles as they are stored: twin of parts of engine/values/. */

#include "hot.h"

/* The number that these bytes spell, exactly as `parse_int`: -?[1-9][0-9]* or 0, of 64 bits. The lowest one is Python's. */
int parse_int(PyObject *data, int64_t *number)
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
    if (value > (uint64_t)INT64_MAX) return 0;
    *number = negative ? -(int64_t)value : (int64_t)value;
    return 1;
}

/* Whether these bytes spell a double, and which: as `parse_double`. */
int parse_score(Path *path, PyObject *text, double *score)
{
    const char *from = PyBytes_AS_STRING(text);
    Py_ssize_t size = PyBytes_GET_SIZE(text), digits = 0;
    uint64_t number = 0;
    for (; digits < size && digits < 16 && from[digits] >= '0' && from[digits] <= '9'; digits++)
        number = number * 10 + (uint64_t)(from[digits] - '0');
    if (size && digits == size && number <= (1ULL << 53)) {
        *score = (double)number; /* exact */
        return DONE;
    }
    PyObject *parsed = PyObject_CallOneArg(path->parse_double, text);
    if (parsed == NULL) return FAILED;
    int is_score = PyFloat_CheckExact(parsed);
    *score = is_score ? PyFloat_AS_DOUBLE(parsed) : 0;
    Py_DECREF(parsed);
    return is_score && *score == *score ? DONE : UNUSUAL;
}

/* Eight bytes that sort as scores do. As `pack_score`, of what is a number. */
PyObject *pack_score(double score)
{
    uint64_t bits;
    score += 0.0; /* turns -0.0 into +0.0 */
    memcpy(&bits, &score, 8);
    bits = bits >> 63 ? ~bits : bits | 1ULL << 63;
    PyObject *packed = PyBytes_FromStringAndSize(NULL, 8);
    if (packed != NULL) pack(PyBytes_AS_STRING(packed), bits, 8);
    return packed;
}

/* The score that `pack_score` packed as these eight bytes. */
double unpack_score(PyObject *packed)
{
    uint64_t bits = parse((const unsigned char *)PyBytes_AS_STRING(packed), 8);
    double score;
    bits = bits >> 63 ? bits & ~(1ULL << 63) : ~bits;
    memcpy(&score, &bits, 8);
    return score;
}
