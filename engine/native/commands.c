/* The commands that run in C, when they have no other options and arguments than these. */

#include "hot.h"

enum { MANY = 1 << 30 };

Command commands[COMMANDS_MAX] = {
    {"SET", 2, 4, do_set},
    {"SETEX", 3, 3, do_setex},
    {"PSETEX", 3, 3, do_psetex},
    {"INCR", 1, 1, do_incr},
    {"INCRBY", 2, 2, do_incrby},
    {"DECR", 1, 1, do_decr},
    {"DEL", 1, 1, do_del},
    {"EXPIRE", 2, 2, do_expire},
    {"PEXPIRE", 2, 2, do_pexpire},
    {"EXPIREAT", 2, 2, do_expireat},
    {"PEXPIREAT", 2, 2, do_pexpireat},
    {"HSET", 3, MANY, do_hset},
    {"HINCRBY", 3, 3, do_hincrby},
    {"HDEL", 2, MANY, do_hdel},
    {"SADD", 2, MANY, do_sadd},
    {"SREM", 2, MANY, do_srem},
    {"LPUSH", 2, MANY, do_lpush},
    {"RPUSH", 2, MANY, do_rpush},
    {"LTRIM", 3, 3, do_ltrim},
    {"ZADD", 3, MANY, do_zadd},
    {"ZINCRBY", 3, 3, do_zincrby},
    {"ZREM", 2, MANY, do_zrem},
};
static PyObject *places; /* name -> place among them */

int init_commands(void)
{
    if ((places = PyDict_New()) == NULL) return FAILED;
    for (int i = 0; commands[i].name != NULL; i++) {
        PyObject *place = PyLong_FromLong(i);
        commands[i].bytes = PyBytes_FromString(commands[i].name);
        if (place == NULL || commands[i].bytes == NULL || PyDict_SetItem(places, commands[i].bytes, place) < 0) return FAILED;
        Py_DECREF(place);
    }
    return DONE;
}

/* DONE, or UNUSUAL: it is none of them. */
int find_command(PyObject *name, Command **command)
{
    if (!is_bytes(name)) return UNUSUAL;
    PyObject *place = PyDict_GetItemWithError(places, name);
    if (place == NULL) return PyErr_Occurred() ? FAILED : UNUSUAL;
    *command = commands + PyLong_AsLong(place);
    return DONE;
}
