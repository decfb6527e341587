/* The module `engine.native._hot`: its functions, and where the types of Python have their slots. */

#include "requests.h"

#include <structmember.h>

struct key_slots KEY;
static const char *const KEY_SLOTS[] = {"changed", "data", "db", "expire_ms", "head", "indexed_expire_ms", "metadata_key",
    "name", "ranks", "scores", "size", "tail", "times", "touched", "type", "value", "version", "weight", NULL};

struct subkeys_slots SUBKEYS;
static const char *const SUBKEYS_SLOTS[] = {"_get", "changed", "fresh", "kept", "order", "packed", "prefix", "whole", NULL};

struct tx_slots TX;
static const char *const TX_SLOTS[] = {"db", "_keys", "_touched", "ceilings", "counts", "draws", "floors", "now_ms", "offset",
    "stored_dbs", "value_bytes", "written_bytes", NULL};

struct ranks_slots RANKS;
static const char *const RANKS_SLOTS[] = {"blocks", "groups", "holders", "scores", NULL};

struct stretches_slots STRETCHES;
static const char *const STRETCHES_SLOTS[] = {"counts", "ends", "heads", "members", "scores", "sums", "totals", NULL};

struct holders_slots HOLDERS;
static const char *const HOLDERS_SLOTS[] = {"bytes_max", "keys", "member_bytes", "records", "refused", "scored", "scored_max", NULL};

PyTypeObject *key_type, *subkeys_type, *tx_type, *ranks_type, *stretches_type, *holders_type;
PyObject *zero, *empty_bytes, *new_key_model, *codes[6];

int find_slots(PyTypeObject *type, const char *const *names, Py_ssize_t *slots)
{
    for (; *names != NULL; names++, slots++) {
        PyObject *found = PyObject_GetAttrString((PyObject *)type, *names);
        if (found == NULL) return -1;
        int fits = Py_TYPE(found) == &PyMemberDescr_Type && ((PyMemberDescrObject *)found)->d_member->type == T_OBJECT_EX;
        if (fits) *slots = ((PyMemberDescrObject *)found)->d_member->offset;
        Py_DECREF(found);
        if (!fits) {
            PyErr_Format(PyExc_TypeError, "%s.%s is no slot", type->tp_name, *names);
            return -1;
        }
    }
    return 0;
}

PyDoc_STRVAR(configure_doc, "configure(key, subkeys, transaction, ranks, stretches, holders): learn where the types of these have their slots.\n\n"
"`key` is one as `Key` makes it, of which new ones are copies; the others are types.");

static PyObject *configure(PyObject *module, PyObject *args)
{
    PyObject *key;
    PyTypeObject *subkeys, *tx, *ranks, *stretches, *holders;
    if (!PyArg_ParseTuple(args, "OO!O!O!O!O!", &key, &PyType_Type, &subkeys, &PyType_Type, &tx, &PyType_Type, &ranks, &PyType_Type,
            &stretches, &PyType_Type, &holders))
        return NULL;
    PyTypeObject *type = Py_TYPE(key);
    if (find_slots(type, KEY_SLOTS, (Py_ssize_t *)&KEY) || find_slots(subkeys, SUBKEYS_SLOTS, (Py_ssize_t *)&SUBKEYS) ||
        find_slots(tx, TX_SLOTS, (Py_ssize_t *)&TX) || find_slots(ranks, RANKS_SLOTS, (Py_ssize_t *)&RANKS) ||
        find_slots(stretches, STRETCHES_SLOTS, (Py_ssize_t *)&STRETCHES) ||
        find_slots(holders, HOLDERS_SLOTS, (Py_ssize_t *)&HOLDERS))
        return NULL;
    if (type->tp_base != &PyBaseObject_Type || type->tp_itemsize || type->tp_dictoffset || type->tp_weaklistoffset ||
        (type->tp_flags & (Py_TPFLAGS_MANAGED_DICT | Py_TPFLAGS_HAVE_GC)) != Py_TPFLAGS_HAVE_GC) {
        PyErr_Format(PyExc_TypeError, "%s has more than slots", type->tp_name);
        return NULL;
    }
    if (!PyType_IsSubtype(ranks, subkeys)) {
        PyErr_SetString(PyExc_TypeError, "rank counts are no subkeys");
        return NULL;
    }
    Py_XSETREF(ranks_type, (PyTypeObject *)Py_NewRef((PyObject *)ranks));
    Py_XSETREF(stretches_type, (PyTypeObject *)Py_NewRef((PyObject *)stretches));
    Py_XSETREF(holders_type, (PyTypeObject *)Py_NewRef((PyObject *)holders));
    Py_XSETREF(new_key_model, Py_NewRef(key));
    Py_XSETREF(key_type, (PyTypeObject *)Py_NewRef((PyObject *)type));
    Py_XSETREF(subkeys_type, (PyTypeObject *)Py_NewRef((PyObject *)subkeys));
    Py_XSETREF(tx_type, (PyTypeObject *)Py_NewRef((PyObject *)tx));
    Py_RETURN_NONE;
}

// What Python and C agree on: see INTERFACE in __init__.py.
#define INTERFACE 20

#define FAST(function) (PyCFunction)(void (*)(void))function, METH_FASTCALL

static PyMethodDef functions[] = {
    {"configure", configure, METH_VARARGS, configure_doc},
    {"decode_run", FAST(decode_run),
     "decode_run(batch, heads, size_max, transaction, decode): the events of records.\n\n"
     "Those of a known head, of at most `size_max` bytes, with strings and integers alone as arguments; each other one by\n"
     "`decode(offset, time_ms, value)`. `transaction` is the name whose arguments are of another form."},
    {"bring_in_order", FAST(bring_in_order),
     "bring_in_order(order, values): add the keys of `values` to `order`, which has those that were there before, in their order."},
    {"gather", FAST(gather),
     "gather(gathered, values): put the records of each column family among those that are gathered, all or none. Returns\n\n"
     "how many bytes they have."},
    {"put_all", FAST(put_all),
     "put_all(batch, records, sorted_from): put records into a batch, `sorted_from` of them or more in the order of their keys.\n\n"
     "Returns how many it deletes."},
    {"mark_written", FAST(mark_written), "mark_written(keys, at, listings, forget): make keys[at:] ready for the next batch.\n\n"
     "`forget` is called with each prefix in `listings` under which something has changed. Returns where it has stopped, as\n"
     "`write_keys`."},
    {"metadata_key", FAST(metadata_key), "metadata_key(prefix, name): the metadata key of the layout `neokv`, for tests."},
    {"write_keys", FAST(write_keys),
     "write_keys(keys, at, metadata, data, scores, expiry, ranks, last_version, kept_max, packed): add the changes of keys[at:].\n\n"
     "As `engine.batch.in_memory.writing.write_keys` in a layout that packs as `neokv`. Returns where it has stopped: a key that is\n"
     "Python's, or the end; how many more subkeys are kept in dicts, of collections of up to `kept_max`; and by how much\n"
     "the keys are heavier. Those of larger collections are kept in tables of `packed`."},
    {NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "engine.native._hot", "The hot path of events; see engine/native/__init__.py.", -1, functions,
};

PyMODINIT_FUNC PyInit__hot(void)
{
    fill_crc16_table();
    zero = PyLong_FromLong(0);
    empty_bytes = PyBytes_FromStringAndSize(NULL, 0);
    if (zero == NULL || empty_bytes == NULL) return NULL;
    for (int i = 0; i < 6; i++)
        if ((codes[i] = PyLong_FromLong(i)) == NULL) return NULL;
    if (init_keys() != DONE || init_commands() != DONE || init_ids() != DONE || init_records() != DONE || init_runs() != DONE ||
        init_requests() != DONE || init_turns() != DONE ||
        init_packed() != DONE || PyType_Ready(&GetterType) < 0)
        return NULL;
    PyObject *module = PyModule_Create(&definition);
    if (module == NULL || PyModule_AddFunctions(module, request_functions) < 0 || PyModule_AddObjectRef(module, "Path", (PyObject *)&PathType) < 0 ||
        PyModule_AddObjectRef(module, "ClientPath", (PyObject *)&ClientPathType) < 0 ||
        PyModule_AddObjectRef(module, "PackedMemory", (PyObject *)&PackedMemoryType) < 0 ||
        PyModule_AddObjectRef(module, "Getter", (PyObject *)&GetterType) < 0 ||
        PyModule_AddIntMacro(module, INTERFACE) < 0) {
        Py_XDECREF(module);
        return NULL;
    }
    return module;
}
