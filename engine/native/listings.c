/* Answers reads of whole small collections from their listings (engine/batch/in_memory/listings.py says what these are,
 * and makes those that are missing): twin of `resp.clients.running.fast_path.read` for the commands below.
 *
 *     HGETALL key    HKEYS key    HVALS key    LRANGE key start stop    SMEMBERS key    SINTER key [key ...]
 *
 * A listing is used as long as nothing has changed of its collection that is not written: where keys are marked
 * as written (writing.c), those of what was changed are forgotten. */

#include "requests.h"

enum { COUNT_BYTES = 4, LISTED_MAX = 512, SETS_MAX = 16 }; /* as `ELEMENTS_MAX` */

/* The bulk strings of a listing. */
typedef struct {
    PyObject *owner;
    const char *from, *end;
} Bulks;

/* Those of a hash, list or set with this many elements, with a reference that the caller has to give back. UNUSUAL: there
 * are none, or they may be other ones by now. */
static int find_bulks(Reader *reader, PyObject *key, int type, int64_t size, Bulks *bulks)
{
    PyObject *data = at(key, KEY.data);
    uint32_t count;
    if (size < 1 || size > LISTED_MAX || PyDict_GET_SIZE(at(data, SUBKEYS.changed)))
        return UNUSUAL;
    PyObject *found = Py_XNewRef(PyDict_GetItemWithError(reader->path->listings, at(data, SUBKEYS.prefix)));
    if (found == NULL && !PyErr_Occurred()) found = PyObject_CallOneArg(reader->path->make_listing, key);
    if (found == NULL) return FAILED;
    if (is_bytes(found) && PyBytes_GET_SIZE(found) > COUNT_BYTES) {
        memcpy(&count, PyBytes_AS_STRING(found), COUNT_BYTES);
        if (count == (type == HASH ? 2 * size : size)) {
            *bulks = (Bulks){found, PyBytes_AS_STRING(found) + COUNT_BYTES, PyBytes_AS_STRING(found) + PyBytes_GET_SIZE(found)};
            return DONE;
        }
    }
    Py_DECREF(found);
    return UNUSUAL;
}

/* The text of the bulk string that begins at `from`, and its size. */
static inline const char *text_at(const char *from, Py_ssize_t *size)
{
    Py_ssize_t digits = 0;
    while (*++from != '\r') digits = 10 * digits + (*from - '0');
    *size = digits;
    return from + 2;
}

/* Where the next bulk string begins. */
static inline const char *behind(const char *from)
{
    Py_ssize_t size;
    const char *text = text_at(from, &size);
    return text + size + 2;
}

static int add_bytes(Reader *reader, const char *from, Py_ssize_t size)
{
    char *to = reserve(reader, size);
    if (to == NULL) return FAILED;
    memcpy(to, from, size);
    reader->size += size;
    return DONE;
}

/* The head of a reply with so many elements, as an array in RESP2 and as `kind` in RESP3. */
static int add_head(Reader *reader, char kind, int64_t count)
{
    int is_resp3 = *PyBytes_AS_STRING(reader->null) == '_';
    reader->hits += count != 0;
    return add_number(reader, is_resp3 ? kind : '*', is_resp3 || kind != '%' ? count : 2 * count);
}

/* Every second of the bulk strings, from the first one on or from the one behind it. */
static int add_every_second(Reader *reader, const Bulks *bulks, int64_t size, int is_second)
{
    char *to = add_head(reader, '*', size) == FAILED ? NULL : reserve(reader, bulks->end - bulks->from);
    if (to == NULL) return FAILED;
    const char *from = is_second ? behind(bulks->from) : bulks->from;
    for (; size; size--) {
        const char *next = behind(from);
        memcpy(to, from, next - from);
        to += next - from;
        from = size > 1 ? behind(next) : next;
    }
    reader->size = to - reader->data;
    return DONE;
}

/* The elements of a list from one position to another, the second one excluded. */
static int add_span(Reader *reader, const Bulks *bulks, int64_t first, int64_t end, int64_t size)
{
    if (add_head(reader, '*', end - first) == FAILED) return FAILED;
    const char *from = bulks->from, *to;
    for (int64_t i = 0; i < first; i++) from = behind(from);
    if (end == size) to = bulks->end;
    else
        for (to = from; first < end; first++) to = behind(to);
    return add_bytes(reader, from, to - from);
}

static int answer_lrange(Reader *reader, PyObject *command, PyObject *key)
{
    int64_t first, last, size;
    int type = plain_code(key);
    Bulks bulks;
    if (!parse_int(PyList_GET_ITEM(command, 2), &first) || !parse_int(PyList_GET_ITEM(command, 3), &last)) return UNUSUAL;
    if (type == NONE) return add_head(reader, '*', 0);
    if (type != LIST || !has_size(key, &size)) return UNUSUAL;
    first = first < 0 ? first + size : first; /* no overflow: the size is that of a key in memory, at most INT64_MAX / 2 */
    last = last < 0 ? last + size : last;
    if (first < 0) first = 0;
    if (last >= size) last = size - 1;
    if (first > last) return add_head(reader, '*', 0);
    int done = find_bulks(reader, key, LIST, size, &bulks);
    if (done != DONE) return done;
    done = add_span(reader, &bulks, first, last + 1, size);
    Py_DECREF(bulks.owner);
    return done;
}

/* Below 0, 0 or above 0: how the texts of two bulk strings compare, as the bytes of keys do. */
static inline int compare(const char *one, const char *other)
{
    Py_ssize_t size, other_size;
    const char *text = text_at(one, &size), *other_text = text_at(other, &other_size);
    int order = memcmp(text, other_text, size < other_size ? size : other_size);
    return order ? order : (size > other_size) - (size < other_size);
}

/* The members that all sets have: walks along all of them, which are in order. */
static int add_common(Reader *reader, Bulks *sets, Py_ssize_t count)
{
    const char *found[LISTED_MAX], *ends[LISTED_MAX];
    Py_ssize_t size = 0, bytes = 0;
    for (const char *member = sets[0].from; member < sets[0].end;) {
        const char *next = behind(member);
        int is_common = 1;
        for (Py_ssize_t i = 1; is_common && i < count; i++) {
            int order = 1;
            while (sets[i].from < sets[i].end && (order = compare(sets[i].from, member)) < 0) sets[i].from = behind(sets[i].from);
            is_common = sets[i].from < sets[i].end && order == 0;
        }
        if (is_common) {
            found[size] = member;
            ends[size++] = next;
            bytes += next - member;
        }
        member = next;
    }
    char *to = add_head(reader, '~', size) == FAILED ? NULL : reserve(reader, bytes);
    if (to == NULL) return FAILED;
    for (Py_ssize_t i = 0; i < size; i++, to += ends[i - 1] - found[i - 1]) memcpy(to, found[i], ends[i] - found[i]);
    reader->size += bytes;
    return DONE;
}

static int answer_sinter(Reader *reader, PyObject *command)
{
    PyObject *keys[SETS_MAX];
    Bulks sets[SETS_MAX];
    Py_ssize_t count = PyList_GET_SIZE(command) - 1, taken = 0;
    int64_t sizes[SETS_MAX];
    int some_is_missing = 0, done = DONE;
    if (count > SETS_MAX) return UNUSUAL;
    for (Py_ssize_t i = 0; i < count; i++) {
        keys[i] = key_of(reader, PyList_GET_ITEM(command, i + 1));
        if (keys[i] == NULL) return PyErr_Occurred() ? FAILED : UNUSUAL;
        int type = plain_code(keys[i]);
        if (type != NONE && (type != SET || !has_size(keys[i], &sizes[i]))) return UNUSUAL;
        some_is_missing |= type == NONE;
    }
    if (some_is_missing) return add_head(reader, '~', 0);
    for (Py_ssize_t i = 0; i < count; i++) Py_INCREF(keys[i]);
    for (; taken < count; taken++) {
        done = find_bulks(reader, keys[taken], SET, sizes[taken], &sets[taken]);
        if (done != DONE) break;
    }
    if (done == DONE) done = add_common(reader, sets, count);
    for (Py_ssize_t i = 0; i < taken; i++) Py_DECREF(sets[i].owner);
    for (Py_ssize_t i = 0; i < count; i++) Py_DECREF(keys[i]);
    return done;
}

/* Answers a command of one of the kinds here, whose first key is this one. */
int answer_whole(Reader *reader, int kind, PyObject *command, PyObject *key)
{
    if (kind == READS_LRANGE) return answer_lrange(reader, command, key);
    if (kind == READS_SINTER) return answer_sinter(reader, command);
    int wanted = kind == READS_SMEMBERS ? SET : HASH, type = plain_code(key);
    char head = kind == READS_HGETALL ? '%' : kind == READS_SMEMBERS ? '~' : '*';
    int64_t size;
    Bulks bulks;
    if (type == NONE) return add_head(reader, head, 0);
    if (type != wanted || !has_size(key, &size)) return UNUSUAL;
    int done = find_bulks(reader, key, type, size, &bulks);
    if (done != DONE) return done;
    if (kind == READS_HKEYS || kind == READS_HVALS) done = add_every_second(reader, &bulks, size, kind == READS_HVALS);
    else if (add_head(reader, head, size) == FAILED) done = FAILED;
    else done = add_bytes(reader, bulks.from, bulks.end - bulks.from);
    Py_DECREF(bulks.owner);
    return done;
}

/* The texts of a record that a listing shows: how many, up to two; below 0: it is no record. */
static int shown_of(PyObject *record, Py_ssize_t skip, int with_subkey, int with_value, const char *texts[2], Py_ssize_t sizes[2])
{
    if (!PyTuple_CheckExact(record) || PyTuple_GET_SIZE(record) != 2) return -1;
    PyObject *key = PyTuple_GET_ITEM(record, 0), *value = PyTuple_GET_ITEM(record, 1);
    if (!is_bytes(key) || !is_bytes(value) || skip < 0 || PyBytes_GET_SIZE(key) < skip) return -1;
    int count = 0;
    if (with_subkey) {
        texts[count] = PyBytes_AS_STRING(key) + skip;
        sizes[count++] = PyBytes_GET_SIZE(key) - skip;
    }
    if (with_value) {
        texts[count] = PyBytes_AS_STRING(value);
        sizes[count++] = PyBytes_GET_SIZE(value);
    }
    return count;
}

PyObject *pack_listing(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    const char *texts[2];
    Py_ssize_t sizes[2], bytes = COUNT_BYTES, skip = count == 5 ? PyLong_AsSsize_t(given[1]) : -1, most;
    uint32_t total = 0;
    int shown = 0;
    if (count != 5 || !PyList_CheckExact(given[0]) || !PyLong_Check(given[4])) {
        PyErr_SetString(PyExc_TypeError, "pack_listing(records, skip, with_subkeys, with_values, most)");
        return NULL;
    }
    most = PyLong_AsSsize_t(given[4]);
    if (PyErr_Occurred()) return NULL;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(given[0]) && bytes <= most; i++) {
        shown = shown_of(PyList_GET_ITEM(given[0], i), skip, given[2] == Py_True, given[3] == Py_True, texts, sizes);
        if (shown < 0) {
            PyErr_SetString(PyExc_TypeError, "records are pairs of bytes");
            return NULL;
        }
        for (int j = 0; j < shown; j++) bytes += write_bulk(NULL, NULL, sizes[j]);
        total += shown;
    }
    if (bytes > most) Py_RETURN_NONE;
    PyObject *listing = PyBytes_FromStringAndSize(NULL, bytes);
    if (listing == NULL) return NULL;
    char *to = PyBytes_AS_STRING(listing);
    memcpy(to, &total, COUNT_BYTES);
    to += COUNT_BYTES;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(given[0]); i++) {
        shown = shown_of(PyList_GET_ITEM(given[0], i), skip, given[2] == Py_True, given[3] == Py_True, texts, sizes);
        for (int j = 0; j < shown; j++) to += write_bulk(to, texts[j], sizes[j]);
    }
    return listing;
}
