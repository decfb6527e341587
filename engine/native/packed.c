/* Elements of large collections in memory, packed: some 35 bytes for one of 15 with a value of 8, where a dict of Python takes 200.
 *
 * Each collection has a table by extendible hashing (Fagin, Nievergelt, Pippenger, Strong, 1979): pages of up to 64 elements, and a
 * directory that says by the last bits of an element's hash in which page it is. A full page is split in two, and the directory is
 * doubled when a page needs one bit more than it has. So no element that comes waits for more than one page and one copy of the
 * directory.
 *
 * All tables of a partition share what they may take. When that is too much, pages go in turn, but not those that were looked
 * into since their last turn (CLOCK: Corbato, 1968). Then their tables are whole no more: what is not found has to be read.
 *
 * What is held says only whether the store has to be read. No reply and no record depends on it, and so none on the hash's seed. */

#include "hot.h"

#include <structmember.h>

enum {
    PAGE_ELEMENTS = 64,
    DEPTH_MAX = 24,
    WIDE_MAX = 6,     /* a new page stands at no more than 2^6 places */
    PASSED_MAX = 32,  /* pages that were looked into, before any goes: one turn over all of them would take milliseconds */
    BLOCK_BYTES = 16, /* that malloc takes for itself */
};

typedef struct {
    uint8_t depth; /* so many of the last bits of the hash do all its elements share */
    uint8_t count;
    uint8_t recent; /* looked into since its last turn */
    uint16_t used, room, dead; /* bytes of `entries`: written, allocated, and written but of no element any more */
    uint8_t tags[PAGE_ELEMENTS]; /* the first eight bits of each hash */
    uint16_t places[PAGE_ELEMENTS];
    unsigned char entries[]; /* of each the size of the element and of the value, a byte each, and both */
} Page;

typedef struct Packed Packed;

/* What all tables of a partition take. */
typedef struct {
    PyObject_HEAD
    Py_ssize_t bytes, bytes_max, elements, pages;
    Packed *turn; /* one of the tables, which are a ring */
    uint64_t at;  /* the place in its directory */
} Memory;

struct Packed {
    PyObject_HEAD
    Memory *memory;
    Packed *before, *behind;
    Page **pages; /* 2^depth places; a page stands at each that ends with its bits. NULL: nothing is held there */
    int depth;
    int whole; /* it has all elements of its collection */
    Py_ssize_t bytes, count;
};

static PyTypeObject PackedType;

int is_table(PyObject *object) { return object != NULL && Py_TYPE(object) == &PackedType; }

static PyHash_FuncDef *hash_function; /* has a secret seed, so nobody can choose elements for one page */

static inline uint64_t hash_of(const void *element, Py_ssize_t size) { return (uint64_t)hash_function->hash(element, size); }

static inline uint8_t tag_of(uint64_t hash) { return (uint8_t)(hash >> 56); }
static inline uint64_t low_bits(uint64_t hash, int bits) { return hash & ((1ULL << bits) - 1); }
static inline Py_ssize_t size_of(const Page *page) { return (Py_ssize_t)sizeof(Page) + page->room + BLOCK_BYTES; }

static void take(Packed *packed, Py_ssize_t bytes, Py_ssize_t elements, Py_ssize_t pages)
{
    packed->bytes += bytes;
    packed->count += elements;
    packed->memory->bytes += bytes;
    packed->memory->elements += elements;
    packed->memory->pages += pages;
}

static Page *new_page(int depth, Py_ssize_t room)
{
    Page *page = PyMem_Malloc(sizeof(Page) + room);
    if (page == NULL) return NULL;
    memset(page, 0, sizeof(Page));
    page->depth = (uint8_t)depth;
    page->recent = 1;
    page->room = (uint16_t)room;
    return page;
}

/* Of eight tags from one on, those that are equal to another one: a bit for each, and for few others. */
static inline uint64_t equal_tags(const Page *page, int from, uint8_t tag)
{
    const uint64_t ones = 0x0101010101010101ULL;
    uint64_t differences = parse(page->tags + from, 8) ^ ones * tag;
    return (differences - ones) & ~differences & ones << 7;
}

/* Where an element is in a page; -1: it is not there. Eight tags are compared at a time. */
static int find(const Page *page, uint8_t tag, const char *element, Py_ssize_t size)
{
    for (int from = 0; from < page->count; from += 8) {
        for (uint64_t equal = equal_tags(page, from, tag); equal; equal &= equal - 1) {
            int at = from + 7 - __builtin_ctzll(equal) / 8;
            const unsigned char *entry = page->entries + page->places[at];
            if (at < page->count && entry[0] == size && !memcmp(entry + 2, element, size)) return at;
        }
    }
    return -1;
}

/* Adds an entry to a page that has room. */
static void append(Page *page, uint8_t tag, const void *element, Py_ssize_t size, const void *value, Py_ssize_t value_size)
{
    unsigned char *entry = page->entries + page->used;
    page->tags[page->count] = tag;
    page->places[page->count++] = page->used;
    entry[0] = (unsigned char)size;
    entry[1] = (unsigned char)value_size;
    memcpy(entry + 2, element, size);
    memcpy(entry + 2 + size, value, value_size);
    page->used += 2 + size + value_size;
}

static void append_entry(Page *page, uint8_t tag, const unsigned char *entry)
{
    append(page, tag, entry + 2, entry[0], entry + 2 + entry[0], entry[1]);
}

static void drop(Page *page, int at)
{
    const unsigned char *entry = page->entries + page->places[at];
    page->dead += 2 + entry[0] + entry[1];
    page->count--;
    page->tags[at] = page->tags[page->count];
    page->places[at] = page->places[page->count];
}

/* Puts one page, or two by their next bit, where a page was, which ends. */
static void replace(Packed *packed, Page *page, uint64_t hash, Page *first, Page *second)
{
    for (uint64_t at = low_bits(hash, page->depth); at < 1ULL << packed->depth; at += 1ULL << page->depth)
        packed->pages[at] = at >> page->depth & 1 ? second : first;
    take(packed, size_of(first) + (second != first ? size_of(second) : 0) - size_of(page), 0, second != first);
    PyMem_Free(page);
}

static int double_directory(Packed *packed)
{
    size_t bytes = sizeof(Page *) << packed->depth;
    Page **pages = PyMem_Realloc(packed->pages, 2 * bytes);
    if (pages == NULL) return FAILED;
    memcpy((char *)pages + bytes, pages, bytes);
    packed->pages = pages;
    packed->depth++;
    take(packed, (Py_ssize_t)bytes, 0, 0);
    return DONE;
}

/* Takes a page away with what it has, and the directory when that was the last one. */
static void drop_page(Packed *packed, Page *page, uint64_t hash)
{
    for (uint64_t at = low_bits(hash, page->depth); at < 1ULL << packed->depth; at += 1ULL << page->depth) packed->pages[at] = NULL;
    take(packed, -size_of(page), -page->count, -1);
    PyMem_Free(page);
    if (packed->count || !packed->depth) return;
    for (uint64_t at = 0; at < 1ULL << packed->depth; at++)
        if (packed->pages[at] != NULL) return; /* pages without an element */
    take(packed, -(Py_ssize_t)((sizeof(Page *) << packed->depth) - sizeof(Page *)), 0, 0);
    packed->depth = 0;
    Page **pages = PyMem_Realloc(packed->pages, sizeof(Page *));
    if (pages != NULL) packed->pages = pages;
}

/* Takes pages away until the tables take no more than they may. */
static void make_way(Memory *memory)
{
    int passed = 0;
    while (memory->bytes > memory->bytes_max && memory->pages) {
        Packed *packed = memory->turn;
        if (memory->at >> packed->depth) {
            memory->turn = packed->behind;
            memory->at = 0;
            continue;
        }
        uint64_t at = memory->at++;
        Page *page = packed->pages[at];
        if (page == NULL || at >> page->depth) continue; /* or not the first of its places */
        if (page->recent && passed++ < PASSED_MAX) page->recent = 0;
        else {
            packed->whole = packed->whole && !page->count;
            drop_page(packed, page, at);
        }
    }
}

/* A page for where nothing is held, at as many places as have nothing and share their last bits. */
static Page *open_page(Packed *packed, uint64_t hash, Py_ssize_t room)
{
    int depth = packed->depth, is_free = 1;
    while (depth && packed->depth - depth < WIDE_MAX) {
        for (uint64_t at = low_bits(hash, depth) ^ 1ULL << (depth - 1); is_free && at < 1ULL << packed->depth; at += 1ULL << depth)
            is_free = packed->pages[at] == NULL;
        if (!is_free) break;
        depth--;
    }
    Page *page = new_page(depth, room);
    if (page == NULL) return NULL;
    for (uint64_t at = low_bits(hash, depth); at < 1ULL << packed->depth; at += 1ULL << depth) packed->pages[at] = page;
    take(packed, size_of(page), 0, 1);
    return page;
}

/* Splits a page by the next bit. UNUSUAL: the table is as large as it may be. */
static int split(Packed *packed, Page *page, uint64_t hash)
{
    if (page->depth == DEPTH_MAX) return UNUSUAL;
    if (page->depth == packed->depth && double_directory(packed) == FAILED) return FAILED;
    Py_ssize_t bytes[2] = {0, 0};
    uint8_t half_of[PAGE_ELEMENTS];
    for (int i = 0; i < page->count; i++) {
        const unsigned char *entry = page->entries + page->places[i];
        half_of[i] = hash_of(entry + 2, entry[0]) >> page->depth & 1;
        bytes[half_of[i]] += 2 + entry[0] + entry[1];
    }
    Page *halves[2];
    for (int i = 0; i < 2; i++) halves[i] = new_page(page->depth + 1, bytes[i] + bytes[i] / 4);
    if (halves[0] == NULL || halves[1] == NULL) {
        PyMem_Free(halves[0]);
        PyMem_Free(halves[1]);
        return FAILED;
    }
    for (int i = 0; i < page->count; i++) append_entry(halves[half_of[i]], page->tags[i], page->entries + page->places[i]);
    replace(packed, page, hash, halves[0], halves[1]);
    return DONE;
}

/* Gives a page room for so many bytes more than its elements have, and a quarter. */
static int make_room(Packed *packed, Page *page, uint64_t hash, Py_ssize_t more)
{
    Py_ssize_t live = page->used - page->dead;
    Page *larger = new_page(page->depth, live + more + live / 4);
    if (larger == NULL) return FAILED;
    for (int i = 0; i < page->count; i++) append_entry(larger, page->tags[i], page->entries + page->places[i]);
    replace(packed, page, hash, larger, larger);
    return DONE;
}

PyObject *get_packed(PyObject *table, PyObject *element)
{
    const Packed *packed = (Packed *)table;
    const char *from = PyBytes_AS_STRING(element);
    Py_ssize_t size = PyBytes_GET_SIZE(element);
    uint64_t hash = hash_of(from, size);
    Page *page = packed->pages[low_bits(hash, packed->depth)];
    int at = page == NULL ? -1 : find(page, tag_of(hash), from, size);
    if (at < 0) return packed->whole ? Py_NewRef(Py_None) : NULL;
    page->recent = 1;
    const unsigned char *entry = page->entries + page->places[at];
    return PyBytes_FromStringAndSize((const char *)entry + 2 + size, entry[1]);
}

int fetch_packed(PyObject *table, PyObject *const *elements, int count, uint64_t *values)
{
    const Packed *packed = (Packed *)table;
    uint64_t hashes[AHEAD_MAX];
    const Page *pages[AHEAD_MAX];
    int found = 0;
    for (int i = 0; i < count; i++) {
        hashes[i] = hash_of(PyBytes_AS_STRING(elements[i]), PyBytes_GET_SIZE(elements[i]));
        __builtin_prefetch(packed->pages + low_bits(hashes[i], packed->depth));
    }
    for (int i = 0; i < count; i++)
        if ((pages[i] = packed->pages[low_bits(hashes[i], packed->depth)]) != NULL) fetch_bytes(pages[i], sizeof(Page));
    for (int i = 0; i < count; i++) {
        const Page *page = pages[i];
        for (int from = 0; page != NULL && from < page->count; from += 8)
            for (uint64_t equal = equal_tags(page, from, tag_of(hashes[i])); equal; equal &= equal - 1) {
                const unsigned char *entry = page->entries + page->places[from + 7 - __builtin_ctzll(equal) / 8];
                fetch_bytes(entry, 2 + PyBytes_GET_SIZE(elements[i]) + 8);
            }
    }
    for (int i = 0; values != NULL && i < count; i++) {
        Py_ssize_t size = PyBytes_GET_SIZE(elements[i]);
        int at = pages[i] == NULL ? -1 : find(pages[i], tag_of(hashes[i]), PyBytes_AS_STRING(elements[i]), size);
        const unsigned char *entry = at < 0 ? NULL : pages[i]->entries + pages[i]->places[at];
        if (entry != NULL && entry[1] == 8) values[found++] = parse(entry + 2 + size, 8);
    }
    return found;
}

void discard_packed(PyObject *table, PyObject *element)
{
    Packed *packed = (Packed *)table;
    uint64_t hash = hash_of(PyBytes_AS_STRING(element), PyBytes_GET_SIZE(element));
    Page *page = packed->pages[low_bits(hash, packed->depth)];
    int at = page == NULL ? -1 : find(page, tag_of(hash), PyBytes_AS_STRING(element), PyBytes_GET_SIZE(element));
    if (at < 0) return;
    drop(page, at);
    take(packed, 0, -1, 0);
    if (!page->count) drop_page(packed, page, hash);
}

int put_packed(PyObject *table, PyObject *element, PyObject *value)
{
    Packed *packed = (Packed *)table;
    Py_ssize_t size = PyBytes_GET_SIZE(element), value_size = PyBytes_GET_SIZE(value), more = 2 + size + value_size;
    if (size + value_size > KEPT_BYTES_MAX) {
        discard_packed(table, element);
        packed->whole = 0;
        return DONE;
    }
    make_way(packed->memory);
    uint64_t hash = hash_of(PyBytes_AS_STRING(element), size);
    Page *page = packed->pages[low_bits(hash, packed->depth)];
    if (page == NULL && (page = open_page(packed, hash, more)) == NULL) goto failed;
    int at = find(page, tag_of(hash), PyBytes_AS_STRING(element), size);
    if (at >= 0) {
        unsigned char *entry = page->entries + page->places[at];
        page->recent = 1;
        if (entry[1] == value_size) {
            memcpy(entry + 2 + size, PyBytes_AS_STRING(value), value_size);
            return DONE;
        }
        drop(page, at);
        take(packed, 0, -1, 0);
    }
    while (page->count == PAGE_ELEMENTS) {
        int done = split(packed, page, hash);
        if (done == FAILED) goto failed;
        if (done == UNUSUAL) {
            packed->whole = 0;
            return DONE;
        }
        page = packed->pages[low_bits(hash, packed->depth)];
    }
    if (page->used + more > page->room) {
        if (make_room(packed, page, hash, more) == FAILED) goto failed;
        page = packed->pages[low_bits(hash, packed->depth)];
    }
    append(page, tag_of(hash), PyBytes_AS_STRING(element), size, PyBytes_AS_STRING(value), value_size);
    take(packed, 0, 1, 0);
    return DONE;
failed:
    PyErr_NoMemory();
    return FAILED;
}

void set_whole(PyObject *table, int whole) { ((Packed *)table)->whole = whole; }

PyObject *new_packed(PyObject *all)
{
    Memory *memory = (Memory *)all;
    Packed *packed = (Packed *)PackedType.tp_alloc(&PackedType, 0);
    if (packed == NULL) return NULL;
    packed->pages = PyMem_Calloc(1, sizeof(Page *));
    if (packed->pages == NULL) {
        Py_TYPE(packed)->tp_free(packed);
        return PyErr_NoMemory();
    }
    packed->memory = (Memory *)Py_NewRef(all);
    Packed *turn = memory->turn == NULL ? memory->turn = packed : memory->turn;
    packed->behind = turn;
    packed->before = turn == packed ? packed : turn->before;
    packed->before->behind = turn->before = packed;
    take(packed, (Py_ssize_t)(sizeof(Packed) + sizeof(Page *)), 0, 0);
    return (PyObject *)packed;
}

static void packed_dealloc(Packed *packed)
{
    Memory *memory = packed->memory;
    Py_ssize_t pages = 0;
    for (uint64_t at = 1ULL << packed->depth; at--;) {
        Page *page = packed->pages[at];
        if (page == NULL || at >> page->depth) continue; /* its other places were passed when it comes to the first */
        PyMem_Free(page);
        pages++;
    }
    PyMem_Free(packed->pages);
    take(packed, -packed->bytes, -packed->count, -pages);
    packed->before->behind = packed->behind;
    packed->behind->before = packed->before;
    if (memory->turn == packed) {
        memory->turn = packed->behind == packed ? NULL : packed->behind;
        memory->at = 0;
    }
    Py_DECREF(memory);
    Py_TYPE(packed)->tp_free(packed);
}

static int take_arguments(const char *form, PyObject *const *given, Py_ssize_t count, Py_ssize_t wanted)
{
    int fits = count == wanted;
    for (Py_ssize_t i = 0; fits && i < count; i++) fits = PyBytes_CheckExact(given[i]);
    if (!fits) PyErr_SetString(PyExc_TypeError, form);
    return fits;
}

static PyObject *packed_get(PyObject *packed, PyObject *const *given, Py_ssize_t count)
{
    if (!take_arguments("get(element, default)", given, count, 2)) return NULL;
    PyObject *value = get_packed(packed, given[0]);
    return value != NULL || PyErr_Occurred() ? value : Py_NewRef(given[1]);
}

static PyObject *packed_put(PyObject *packed, PyObject *const *given, Py_ssize_t count)
{
    if (!take_arguments("put(element, value)", given, count, 2) || put_packed(packed, given[0], given[1]) == FAILED) return NULL;
    Py_RETURN_NONE;
}

static PyObject *packed_discard(PyObject *packed, PyObject *const *given, Py_ssize_t count)
{
    if (!take_arguments("discard(element)", given, count, 1)) return NULL;
    discard_packed(packed, given[0]);
    Py_RETURN_NONE;
}

static Py_ssize_t packed_length(PyObject *packed) { return ((Packed *)packed)->count; }

#define FAST(function) (PyCFunction)(void (*)(void))function, METH_FASTCALL

static PyMethodDef packed_methods[] = {
    {"get", FAST(packed_get), "get(element, default): its value; None: it does not exist; the bytes `default`: that is not known."},
    {"put", FAST(packed_put), "put(element, value): hold it, where both have no more than 128 bytes."},
    {"discard", FAST(packed_discard), "discard(element): it does not exist."},
    {NULL},
};

static PySequenceMethods packed_sequence = {.sq_length = packed_length};

static PyMemberDef packed_members[] = {
    {"held_bytes", T_PYSSIZET, offsetof(Packed, bytes), READONLY, "what it takes"},
    {"whole", T_INT, offsetof(Packed, whole), READONLY, "whether it has all elements of its collection"},
    {NULL},
};

static PyTypeObject PackedType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "engine.native._hot.PackedElements",
    .tp_doc = "Elements of one collection, and their values, packed; of a `PackedMemory`.",
    .tp_basicsize = sizeof(Packed),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_dealloc = (destructor)packed_dealloc,
    .tp_as_sequence = &packed_sequence,
    .tp_methods = packed_methods,
    .tp_members = packed_members,
};

static PyObject *memory_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *words[] = {"bytes_max", NULL};
    Py_ssize_t bytes_max;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "n", words, &bytes_max)) return NULL;
    Memory *memory = (Memory *)type->tp_alloc(type, 0);
    if (memory != NULL) memory->bytes_max = bytes_max;
    return (PyObject *)memory;
}

static PyObject *memory_table(PyObject *memory, PyObject *nothing) { return new_packed(memory); }

static PyObject *memory_limit(PyObject *memory, PyObject *bytes_max)
{
    Py_ssize_t limit = PyLong_AsSsize_t(bytes_max);
    if (limit == -1 && PyErr_Occurred()) return NULL;
    ((Memory *)memory)->bytes_max = limit;
    make_way((Memory *)memory);
    Py_RETURN_NONE;
}

static PyMethodDef memory_methods[] = {
    {"limit", memory_limit, METH_O, "limit(bytes_max): from now on they may take so much."},
    {"table", memory_table, METH_NOARGS, "table(): a new `PackedElements`."},
    {NULL},
};

static PyMemberDef memory_members[] = {
    {"held_bytes", T_PYSSIZET, offsetof(Memory, bytes), READONLY, "what all tables take"},
    {"bytes_max", T_PYSSIZET, offsetof(Memory, bytes_max), READONLY, "what they may take"},
    {"elements", T_PYSSIZET, offsetof(Memory, elements), READONLY, "how many elements they hold"},
    {NULL},
};

PyTypeObject PackedMemoryType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "engine.native._hot.PackedMemory",
    .tp_doc = "PackedMemory(bytes_max): what the packed elements of a partition take together.",
    .tp_basicsize = sizeof(Memory),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = memory_new,
    .tp_methods = memory_methods,
    .tp_members = memory_members,
};

int init_packed(void)
{
    hash_function = PyHash_GetFuncDef();
    return PyType_Ready(&PackedType) < 0 || PyType_Ready(&PackedMemoryType) < 0 ? FAILED : DONE;
}
