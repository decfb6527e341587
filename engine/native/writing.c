/* Turns the keys of a batch into records, packed as the layout `neokv` does: twin of engine/batch/in_memory/writing.py. */

#include "hot.h"

/* ---------------------------------------------------------------------------------- packing, as the layout `neokv` does */

static uint16_t crc16_table[256]; /* CRC-16/XMODEM */

void fill_crc16_table(void)
{
    for (unsigned int i = 0; i < 256; i++) {
        uint16_t crc = (uint16_t)(i << 8);
        for (int bit = 0; bit < 8; bit++) crc = crc & 0x8000 ? (uint16_t)(crc << 1) ^ 0x1021 : (uint16_t)(crc << 1);
        crc16_table[i] = crc;
    }
}

unsigned int slot_of(const char *name, Py_ssize_t size)
{
    const char *start = memchr(name, '{', size);
    if (start != NULL) {
        const char *end = memchr(start + 1, '}', size - (start + 1 - name));
        if (end != NULL && end > start + 1) {
            name = start + 1;
            size = end - name;
        }
    }
    uint16_t crc = 0;
    for (Py_ssize_t i = 0; i < size; i++) crc = (uint16_t)(crc << 8) ^ crc16_table[(crc >> 8) ^ (unsigned char)name[i]];
    return crc & 16383;
}

PyObject *pack_metadata_key(PyObject *prefix, PyObject *name)
{
    Py_ssize_t front = PyBytes_GET_SIZE(prefix), size = PyBytes_GET_SIZE(name);
    PyObject *packed = PyBytes_FromStringAndSize(NULL, front + 6 + size);
    if (packed == NULL) return NULL;
    char *to = PyBytes_AS_STRING(packed);
    memcpy(to, PyBytes_AS_STRING(prefix), front);
    pack(to + front, slot_of(PyBytes_AS_STRING(name), size), 2);
    pack(to + front + 2, (uint64_t)size, 4);
    memcpy(to + front + 6, PyBytes_AS_STRING(name), size);
    return packed;
}

PyObject *metadata_key(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    if (count != 2 || !PyBytes_CheckExact(given[0]) || !PyBytes_CheckExact(given[1]) || PyBytes_GET_SIZE(given[1]) > UINT32_MAX) {
        PyErr_SetString(PyExc_TypeError, "metadata_key(prefix, name)");
        return NULL;
    }
    return pack_metadata_key(given[0], given[1]);
}

/* The metadata value of a key without times, whose type is `type` and not NONE; NULL without an error: a
 * number is none of 64 bits, or it is a string in fragments. */
static PyObject *pack_metadata(PyObject *key, int type)
{
    uint64_t numbers[5];
    int count = type == STRING ? 1 : type == LIST ? 5 : 3;
    const Py_ssize_t slots[] = {KEY.expire_ms, KEY.version, KEY.size, KEY.head, KEY.tail};
    for (int i = 0; i < count; i++)
        if (!as_uint64(at(key, slots[i]), &numbers[i])) return NULL;
    PyObject *value = type == STRING ? at(key, KEY.value) : empty_bytes;
    if (!is_bytes(value)) return NULL;
    PyObject *packed = PyBytes_FromStringAndSize(NULL, 1 + 8 * count + PyBytes_GET_SIZE(value));
    if (packed == NULL) return NULL;
    char *to = PyBytes_AS_STRING(packed);
    *to++ = (char)(0x80 | (at(key, KEY.ranks) == Py_None ? 0 : 0x10) | type);
    for (int i = 0; i < count; i++, to += 8) pack(to, numbers[i], 8);
    memcpy(to, PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value));
    return packed;
}

/* ------------------------------------------------------------------------------------------------- writing, after it */

int code_of(PyObject *key)
{
    PyObject *type = at(key, KEY.type);
    for (int code = NONE; code <= ZSET; code++)
        if (type == codes[code]) return code;
    return -1;
}

/* The key's own type and nothing that has other records than data, scores and metadata. Returns its code, -1: unusual. */
int plain_code(PyObject *key)
{
    if (Py_TYPE(key) != key_type || at(key, KEY.times) != Py_None || at(key, KEY.ranks) != Py_None) return -1;
    int type = code_of(key);
    PyObject *version = at(key, KEY.version);
    if (type < 0 || version == NULL || !PyLong_CheckExact(version)) return -1;
    if (version == zero) return type <= STRING ? type : -1;
    if (type <= STRING || !is_subkeys(at(key, KEY.data)) || (type == ZSET && !is_subkeys(at(key, KEY.scores)))) return -1;
    return type;
}

static int add_changed(PyObject *subkeys, PyObject *records)
{
    PyObject *prefix = at(subkeys, SUBKEYS.prefix), *subkey, *value;
    Py_ssize_t place = 0;
    while (PyDict_Next(at(subkeys, SUBKEYS.changed), &place, &subkey, &value)) {
        if (!PyBytes_CheckExact(subkey)) {
            PyErr_SetString(PyExc_TypeError, "a subkey is not bytes");
            return FAILED;
        }
        PyObject *record = joined(prefix, subkey);
        if (record == NULL) return FAILED;
        int failed = PyDict_SetItem(records, record, value);
        Py_DECREF(record);
        if (failed) return FAILED;
    }
    return DONE;
}

/* The column families to which a batch adds. */
typedef struct {
    PyObject *metadata, *data, *scores, *expiry, *ranks; /* `ranks` None: the layout has none */
} Batch;

/* As `move_entry`, of a key without field times: lists it at `to` instead of `from`, 0 for nowhere. */
static int move_entry(PyObject *expiry, PyObject *metadata_key, uint64_t from, uint64_t to)
{
    const uint64_t places[] = {from, to};
    for (int i = 0; i < 2; i++) {
        if (!places[i]) continue;
        PyObject *entry = PyBytes_FromStringAndSize(NULL, 8 + PyBytes_GET_SIZE(metadata_key));
        if (entry == NULL) return FAILED;
        pack(PyBytes_AS_STRING(entry), places[i], 8);
        memcpy(PyBytes_AS_STRING(entry) + 8, PyBytes_AS_STRING(metadata_key), PyBytes_GET_SIZE(metadata_key));
        int failed = PyDict_SetItem(expiry, entry, i ? empty_bytes : Py_None);
        Py_DECREF(entry);
        if (failed) return FAILED;
    }
    return DONE;
}

/* Adds the metadata of a key that has changed, which has this type, and moves it in the expiry index. */
static int write_metadata(PyObject *key, int type, Batch *batch)
{
    uint64_t size, head, tail, place, indexed;
    if (!as_uint64(at(key, KEY.expire_ms), &place) || !as_uint64(at(key, KEY.indexed_expire_ms), &indexed)) return UNUSUAL;
    if (type == NONE && place) return UNUSUAL;
    if (type > STRING && (!as_uint64(at(key, KEY.size), &size) || !size)) return UNUSUAL;
    if (type == LIST && (!as_uint64(at(key, KEY.head), &head) || !as_uint64(at(key, KEY.tail), &tail) || tail < head ||
                         tail - head != size))
        return UNUSUAL;
    if (!is_bytes(at(key, KEY.metadata_key))) return UNUSUAL;
    PyObject *value = type == NONE ? Py_NewRef(Py_None) : pack_metadata(key, type);
    if (value == NULL) return PyErr_Occurred() ? FAILED : UNUSUAL;
    int failed = PyDict_SetItem(batch->metadata, at(key, KEY.metadata_key), value);
    Py_DECREF(value);
    if (failed) return FAILED;
    return place == indexed ? DONE : move_entry(batch->expiry, at(key, KEY.metadata_key), indexed, place);
}

/* Whether the rank counts of a key may be written: they have changed with its size. */
static int has_right_ranks(PyObject *key, Batch *batch)
{
    uint64_t size;
    if (!is_ranked(key) || !is_dict(batch->ranks)) return 0;
    PyObject *ranks = at(key, KEY.ranks);
    return !PyDict_GET_SIZE(at(ranks, SUBKEYS.changed)) || (as_uint64(at(key, KEY.size), &size) && is_total(ranks, size));
}

/* As `Subkeys.let_go`; lowers `*more` by what was kept. */
static void let_go(PyObject *subkeys, Py_ssize_t *more)
{
    PyObject *kept = at(subkeys, SUBKEYS.kept);
    if (is_dict(kept)) *more -= PyDict_GET_SIZE(kept);
    put_new(subkeys, SUBKEYS.kept, Py_None);
    put_new(subkeys, SUBKEYS.packed, Py_None);
    put_new(subkeys, SUBKEYS.whole, Py_False);
}

static int are_bytes(PyObject *subkey, PyObject *value)
{
    if (is_bytes(subkey) && (value == Py_None || is_bytes(value))) return 1;
    PyErr_SetString(PyExc_TypeError, "a subkey or its value is not bytes");
    return 0;
}

/* As `Subkeys.keep`, where something has changed. Done twice it is as done once. */
static int keep(PyObject *subkeys, Py_ssize_t *more)
{
    PyObject *changed = at(subkeys, SUBKEYS.changed), *kept = at(subkeys, SUBKEYS.kept), *subkey, *value;
    int whole = at(subkeys, SUBKEYS.fresh) == Py_True || at(subkeys, SUBKEYS.whole) == Py_True;
    Py_ssize_t place = 0;
    if (!PyDict_GET_SIZE(changed)) return DONE;
    if (!is_dict(kept)) {
        if ((kept = PyDict_New()) == NULL) return FAILED;
        put(subkeys, SUBKEYS.kept, kept);
    }
    Py_ssize_t before = PyDict_GET_SIZE(kept);
    while (PyDict_Next(changed, &place, &subkey, &value)) {
        if (!are_bytes(subkey, value)) return FAILED;
        if (value == Py_None || PyBytes_GET_SIZE(subkey) + PyBytes_GET_SIZE(value) <= KEPT_BYTES_MAX) {
            if (PyDict_SetItem(kept, subkey, value) < 0) return FAILED;
        }
        else {
            whole = 0;
            int found = PyDict_Contains(kept, subkey);
            if (found < 0 || (found && PyDict_DelItem(kept, subkey) < 0)) return FAILED;
        }
    }
    put_new(subkeys, SUBKEYS.whole, whole ? Py_True : Py_False);
    *more += PyDict_GET_SIZE(kept) - before;
    return DONE;
}

/* Puts what these say into packed ones. */
static int pack_all(PyObject *packed, PyObject *subkeys)
{
    PyObject *subkey, *value;
    Py_ssize_t place = 0;
    while (PyDict_Next(subkeys, &place, &subkey, &value)) {
        if (!are_bytes(subkey, value)) return FAILED;
        if (value == Py_None) discard_packed(packed, subkey);
        else if (put_packed(packed, subkey, value) == FAILED) return FAILED;
    }
    return DONE;
}

/* As `keep`, where they are packed. */
static int keep_packed(PyObject *subkeys)
{
    PyObject *packed = at(subkeys, SUBKEYS.packed);
    if (at(subkeys, SUBKEYS.fresh) == Py_True) set_whole(packed, 1);
    return pack_all(packed, at(subkeys, SUBKEYS.changed));
}

/* Packs subkeys that were kept in a dict, or not at all. */
static int change_to_packed(PyObject *subkeys, PyObject *memory, Py_ssize_t *more)
{
    PyObject *kept = at(subkeys, SUBKEYS.kept), *packed = new_packed(memory);
    if (packed == NULL) return FAILED;
    if (is_dict(kept)) {
        set_whole(packed, at(subkeys, SUBKEYS.whole) == Py_True);
        if (pack_all(packed, kept) == FAILED) {
            Py_DECREF(packed);
            return FAILED;
        }
    }
    let_go(subkeys, more);
    put(subkeys, SUBKEYS.packed, packed);
    return DONE;
}

/* Which subkeys stay in memory. */
typedef struct {
    Py_ssize_t dict_max; /* of so many elements in a dict, of more packed */
    PyObject *packed;    /* what tables of packed ones take together */
} Keeping;

/* Keeps what has changed of the subkeys of a key in memory, where they are read one by one: as `write_keys` does. */
static int keep_changed(PyObject *key, int type, const Keeping *keeping, Py_ssize_t *more)
{
    int64_t size;
    PyObject *data = at(key, KEY.data);
    if ((type != HASH && type != SET && type != ZSET) || !has_size(key, &size)) {
        let_go(data, more);
        return DONE;
    }
    if (!PyDict_GET_SIZE(at(data, SUBKEYS.changed))) return DONE;
    if (!is_table(at(data, SUBKEYS.packed))) {
        if (size <= keeping->dict_max && keep(data, more) == FAILED) return FAILED;
        PyObject *kept = at(data, SUBKEYS.kept); /* also of what was deleted */
        if (size <= keeping->dict_max && PyDict_GET_SIZE(kept) <= keeping->dict_max) return DONE;
        if (change_to_packed(data, keeping->packed, more) == FAILED) return FAILED;
    }
    return keep_packed(data);
}

/* By type code, and the size of a unit: as in engine/batch/in_memory/memory.py. */
static const int WEIGHTS[] = {25, 25, 48, 52, 48, 68};
enum { UNIT_SHIFT = 4 };

/* Notes what a key takes in memory, where that may have changed; raises `*heavier` by the difference. */
static int weigh(PyObject *key, int type, Py_ssize_t *heavier)
{
    int64_t before;
    if (!as_int64(at(key, KEY.weight), &before) || !is_bytes(at(key, KEY.name)) || !is_bytes(at(key, KEY.value))) return UNUSUAL;
    if (before && at(key, KEY.changed) == Py_False) return DONE;
    Py_ssize_t bytes = 2 * PyBytes_GET_SIZE(at(key, KEY.name)) + PyBytes_GET_SIZE(at(key, KEY.value));
    int64_t now = WEIGHTS[type] + (bytes >> UNIT_SHIFT);
    if (now == before) return DONE;
    PyObject *weight = PyLong_FromLongLong(now);
    if (weight == NULL) return FAILED;
    put(key, KEY.weight, weight);
    *heavier += now - before;
    return DONE;
}

/* How many more subkeys are kept in memory, and by how much the keys are heavier. */
typedef struct {
    Py_ssize_t subkeys, weight;
} More;

static int write_key(PyObject *key, Batch *batch, uint64_t last_version, const Keeping *keeping, More *more)
{
    int type = plain_code(key), ranked = type < 0 && has_right_ranks(key, batch);
    if (ranked) type = ZSET;
    if (type < 0) return UNUSUAL;
    uint64_t version = 0;
    if (type > STRING) {
        if (!as_uint64(at(key, KEY.version), &version)) return UNUSUAL;
        PyObject *fresh = at(at(key, KEY.data), SUBKEYS.fresh);
        if (fresh != Py_False && (fresh != Py_True || version > last_version)) return UNUSUAL;
    }
    if (at(key, KEY.changed) == Py_True) {
        int done = write_metadata(key, type, batch);
        if (done != DONE) return done;
    }
    else {
        PyObject *place = at(key, KEY.expire_ms), *indexed = at(key, KEY.indexed_expire_ms);
        int64_t place_ms, indexed_ms;
        if (at(key, KEY.changed) != Py_False) return UNUSUAL;
        if (place != indexed && !(as_int64(place, &place_ms) && as_int64(indexed, &indexed_ms) && place_ms == indexed_ms))
            return UNUSUAL; /* it cannot be */
    }
    int weighed = weigh(key, type, &more->weight);
    if (weighed != DONE || type <= STRING) return weighed;
    if (add_changed(at(key, KEY.data), batch->data) == FAILED || keep_changed(key, type, keeping, &more->subkeys) == FAILED) return FAILED;
    if (type == ZSET && add_changed(at(key, KEY.scores), batch->scores) == FAILED) return FAILED;
    return ranked ? add_changed(at(key, KEY.ranks), batch->ranks) : DONE;
}

PyObject *write_keys(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    uint64_t last_version;
    int64_t most;
    if (count != 10 || !PyList_CheckExact(given[0]) || !PyLong_CheckExact(given[1]) || !PyDict_CheckExact(given[2]) ||
        !PyDict_CheckExact(given[3]) || !PyDict_CheckExact(given[4]) || !PyDict_CheckExact(given[5]) ||
        !as_uint64(given[7], &last_version) || !as_int64(given[8], &most) ||
        Py_TYPE(given[9]) != &PackedMemoryType) {
        PyErr_SetString(PyExc_TypeError, "write_keys(keys, at, metadata, data, scores, expiry, ranks, last_version, kept_max, packed)");
        return NULL;
    }
    Batch batch = {given[2], given[3], given[4], given[5], given[6]};
    Keeping keeping = {most, given[9]};
    Py_ssize_t i = PyLong_AsSsize_t(given[1]);
    More more = {0, 0};
    if (i < 0) return PyErr_Occurred() ? NULL : Py_BuildValue("nnn", (Py_ssize_t)0, more.subkeys, more.weight);
    for (; i < PyList_GET_SIZE(given[0]); i++) {
        int done = write_key(PyList_GET_ITEM(given[0], i), &batch, last_version, &keeping, &more);
        if (done == FAILED) return NULL;
        if (done == UNUSUAL) break;
    }
    return Py_BuildValue("nnn", i, more.subkeys, more.weight);
}

static int end_subkeys(PyObject *subkeys)
{
    PyObject *order = at(subkeys, SUBKEYS.order);
    if (order == NULL || !PyList_CheckExact(order)) return UNUSUAL;
    if (PyList_GET_SIZE(order)) {
        order = PyList_New(0);
        if (order == NULL) return FAILED;
        put(subkeys, SUBKEYS.order, order);
    }
    PyDict_Clear(at(subkeys, SUBKEYS.changed));
    put_new(subkeys, SUBKEYS.fresh, Py_False);
    return DONE;
}

/* Forgets the listing of subkeys that have changed, if they have one: engine/batch/in_memory/listings.py. */
static int forget_listing(PyObject *subkeys, PyObject *listings, PyObject *forget)
{
    if (!PyDict_GET_SIZE(listings) || !PyDict_GET_SIZE(at(subkeys, SUBKEYS.changed))) return DONE;
    int held = PyDict_Contains(listings, at(subkeys, SUBKEYS.prefix));
    PyObject *nothing = held > 0 ? PyObject_CallOneArg(forget, at(subkeys, SUBKEYS.prefix)) : NULL;
    Py_XDECREF(nothing);
    return held < 0 || (held && nothing == NULL) ? FAILED : DONE;
}

/* Let Python's garbage collector look at a key, unless it is a string of one record, or none: that refers to bytes and numbers alone.
 * So many of them are in memory that walks over them held all clients up: some 4 ms for 10,000 new ones, and the whole
 * memory of keys from time to time. */
static void show_to_collector(PyObject *key, int type)
{
    if (Py_TYPE(key) != key_type) return;
    int tracked = PyObject_GC_IsTracked(key);
    int refers = type < NONE || type > STRING || at(key, KEY.data) != NULL || at(key, KEY.scores) != NULL; /* nor has it ranks or times */
    if (tracked && !refers) PyObject_GC_UnTrack(key);
    if (!tracked && refers) PyObject_GC_Track(key);
}

PyObject *mark_written(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    if (count != 4 || !PyList_CheckExact(given[0]) || !PyLong_CheckExact(given[1]) || !PyDict_CheckExact(given[2])) {
        PyErr_SetString(PyExc_TypeError, "mark_written(keys, at, listings, forget)");
        return NULL;
    }
    Py_ssize_t i = PyLong_AsSsize_t(given[1]);
    if (i < 0) return PyErr_Occurred() ? NULL : PyLong_FromLong(0);
    for (; i < PyList_GET_SIZE(given[0]); i++) {
        PyObject *key = PyList_GET_ITEM(given[0], i);
        int type = plain_code(key), ranked = type < 0 && is_ranked(key), done = DONE;
        if (ranked) type = ZSET;
        show_to_collector(key, type);
        if (type < 0 || at(key, KEY.expire_ms) == NULL) break;
        if (type > STRING && forget_listing(at(key, KEY.data), given[2], given[3]) == FAILED) return NULL;
        if (type > STRING) done = end_subkeys(at(key, KEY.data));
        if (done == DONE && type == ZSET) done = end_subkeys(at(key, KEY.scores));
        if (done == DONE && ranked) done = end_subkeys(at(key, KEY.ranks));
        if (done == FAILED) return NULL;
        if (done == UNUSUAL) break; /* what is ended by now may be ended again */
        put_new(key, KEY.touched, Py_False);
        put_new(key, KEY.changed, Py_False);
        put_new(key, KEY.indexed_expire_ms, at(key, KEY.expire_ms));
    }
    return PyLong_FromSsize_t(i);
}

