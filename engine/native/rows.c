/* Makes rows of the embedded log, with their seals: twin of the loops of `slotlog.log.embedded.writer._rows_by_columns` and
 * `slotlog.log.embedded.file.chain.seals_of`. */

#include "requests.h"

static uint32_t crc32_tables[8][256]; /* CRC-32 as zlib has it, eight bytes at a time */

static void fill_crc32_tables(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++) crc = crc & 1 ? crc >> 1 ^ 0xedb88320u : crc >> 1;
        crc32_tables[0][i] = crc;
    }
    for (int table = 1; table < 8; table++)
        for (int i = 0; i < 256; i++) {
            uint32_t before = crc32_tables[table - 1][i];
            crc32_tables[table][i] = before >> 8 ^ crc32_tables[0][before & 0xff];
        }
}

static uint32_t crc32_of(uint32_t crc, const char *from, Py_ssize_t size)
{
    const unsigned char *at = (const unsigned char *)from;
    crc = ~crc;
    for (; size >= 8; size -= 8, at += 8) {
        uint32_t low = crc ^ ((uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24);
        crc = crc32_tables[7][low & 0xff] ^ crc32_tables[6][low >> 8 & 0xff] ^ crc32_tables[5][low >> 16 & 0xff] ^
              crc32_tables[4][low >> 24] ^ crc32_tables[3][at[4]] ^ crc32_tables[2][at[5]] ^ crc32_tables[1][at[6]] ^
              crc32_tables[0][at[7]];
    }
    for (; size > 0; size--, at++) crc = crc >> 8 ^ crc32_tables[0][(crc ^ *at) & 0xff];
    return ~crc;
}

/* An integer that is not below 0, as msgpack has it. */
static int pack_number(char *to, uint64_t number)
{
    if (number < 0x80) {
        *to = (char)number;
        return 1;
    }
    int power = number < 0x100 ? 0 : number < 0x10000 ? 1 : number < 0x100000000 ? 2 : 3;
    *to = (char)(0xcc + power);
    pack(to + 1, number, 1 << power);
    return 1 + (1 << power);
}

/* The link of a record behind one with the link `link`: see chain.py for what it is made of. */
static uint32_t link_of(uint32_t link, int64_t offset, int64_t time_ms, PyObject *key, PyObject *value)
{
    char head[40];
    int size = 1;
    head[0] = (char)0x94;
    size += pack_number(head + size, (uint64_t)offset);
    size += pack_number(head + size, (uint64_t)time_ms);
    if (key == Py_None) head[size++] = (char)0xc0;
    else {
        size += bin_header(head + size, PyBytes_GET_SIZE(key));
        link = crc32_of(link, head, size);
        link = crc32_of(link, PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key));
        size = 0;
    }
    size += bin_header(head + size, PyBytes_GET_SIZE(value));
    link = crc32_of(link, head, size);
    return crc32_of(link, PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value));
}

static PyObject *copied(PyObject *bytes) { return PyByteArray_FromStringAndSize(PyBytes_AS_STRING(bytes), PyBytes_GET_SIZE(bytes)); }

/* Whether an entry is of this partition, with a time that the log gives, and bytes alone. */
static int is_usual(PyObject *entry, long partition)
{
    if (!PyTuple_Check(entry) || PyTuple_GET_SIZE(entry) != 5) return 0;
    PyObject **of = &PyTuple_GET_ITEM(entry, 0);
    int64_t its;
    return as_int64(of[0], &its) && its == partition && (of[1] == Py_None || is_bytes(of[1])) && is_bytes(of[2]) && of[3] == Py_None;
}

/* Puts a row into `fields` from `place` on. */
static int put_row(PyObject *fields, Py_ssize_t place, int64_t position, PyObject *time, PyObject *entry, const char *seal)
{
    PyObject *key = PyTuple_GET_ITEM(entry, 1);
    PyObject *row[] = {PyLong_FromLongLong(position), Py_NewRef(time), key == Py_None ? Py_NewRef(key) : copied(key),
        copied(PyTuple_GET_ITEM(entry, 2)), PyByteArray_FromStringAndSize(seal, 8)};
    int failed = 0;
    for (int i = 0; i < 5; i++) {
        if (row[i] == NULL) failed = 1;
        PyList_SET_ITEM(fields, place + i, row[i]);
    }
    return failed ? FAILED : DONE;
}

PyObject *rows_of(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    int64_t partition, begin, time_ms, first_link;
    if (count != 6 || !as_int64(given[1], &partition) || !as_int64(given[2], &begin) || !as_int64(given[3], &time_ms) ||
        !as_int64(given[4], &first_link) || !PyType_Check(given[5]) || ((PyTypeObject *)given[5])->tp_base != &PyTuple_Type) {
        PyErr_SetString(PyExc_TypeError, "rows_of(entries, partition, begin, time_ms, link, position_type)");
        return NULL;
    }
    PyTypeObject *position_type = (PyTypeObject *)given[5];
    if (!PyList_CheckExact(given[0]) || partition < 0 || partition > 0x7fff || begin < 0 || begin >> 47 || time_ms < 0) Py_RETURN_NONE;
    Py_ssize_t size = PyList_GET_SIZE(given[0]);
    for (Py_ssize_t i = 0; i < size; i++)
        if (!is_usual(PyList_GET_ITEM(given[0], i), (long)partition)) Py_RETURN_NONE;
    if (!crc32_tables[0][1]) fill_crc32_tables();
    PyObject *fields = PyList_New(5 * size), *positions = PyList_New(size);
    uint32_t link = (uint32_t)first_link;
    for (Py_ssize_t i = 0; fields != NULL && positions != NULL && i < size; i++) {
        PyObject *entry = PyList_GET_ITEM(given[0], i), *offset = PyLong_FromLongLong(begin + i);
        PyObject *position = offset == NULL ? NULL : position_type->tp_alloc(position_type, 3);
        char seal[8];
        pack(seal, link, 4);
        link = link_of(link, begin + i, time_ms, PyTuple_GET_ITEM(entry, 1), PyTuple_GET_ITEM(entry, 2));
        pack(seal + 4, link, 4);
        if (position == NULL || put_row(fields, 5 * i, partition << 48 | (begin + i), given[3], entry, seal) == FAILED) {
            Py_XDECREF(offset);
            Py_XDECREF(position);
            Py_CLEAR(fields);
            break;
        }
        PyTuple_SET_ITEM(position, 0, Py_NewRef(given[1]));
        PyTuple_SET_ITEM(position, 1, offset);
        PyTuple_SET_ITEM(position, 2, Py_NewRef(given[3]));
        PyList_SET_ITEM(positions, i, position);
    }
    if (fields != NULL && positions != NULL) return Py_BuildValue("NNk", fields, positions, (unsigned long)link);
    Py_XDECREF(fields);
    Py_XDECREF(positions);
    return NULL;
}
