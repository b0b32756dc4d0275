/* Self-contained values of MaxMind DBs as Python objects, as mmdb.plain reads them. All of it needs the GIL. */

#pragma once

#include "_facts.h"

/* As in mmdb.py: maps and arrays inside each other, and bytes of one value. */
enum { DEEPEST = 64, LARGEST = 1 << 20 };

static PyObject *plain_value(const unsigned char **at, const unsigned char *end, int depth);

static PyObject *read_whole(const unsigned char *at, uint32_t size, int kind)
{
    static const unsigned char widths[MM_FLOAT + 1] = {
        [MM_UINT16] = 2, [MM_UINT32] = 4, [MM_INT32] = 4, [MM_UINT64] = 8, [MM_UINT128] = 16};
    uint64_t value = 0;
    if (size > widths[kind])
        return NULL;
    if (size > 8)
        return PyObject_CallMethod((PyObject *)&PyLong_Type, "from_bytes", "y#s", (const char *)at, (Py_ssize_t)size, "big");
    for (uint32_t i = 0; i < size; i++)
        value = value << 8 | at[i];
    if (kind == MM_INT32 && size == 4)
        return PyLong_FromLong((int32_t)(uint32_t)value);
    return PyLong_FromUnsignedLongLong(value);
}

static PyObject *read_number(const unsigned char *at, uint32_t size, int kind)
{
    uint64_t bits = 0;
    if (size != (kind == MM_DOUBLE ? 8 : 4))
        return NULL;
    for (uint32_t i = 0; i < size; i++)
        bits = bits << 8 | at[i];
    if (kind == MM_DOUBLE) {
        double found;
        memcpy(&found, &bits, sizeof found);
        return PyFloat_FromDouble(found);
    }
    uint32_t half = (uint32_t)bits;
    float found;
    memcpy(&found, &half, sizeof found);
    return PyFloat_FromDouble(found);
}

/* One whose type stands for neither a map nor an array. */
static PyObject *read_leaf(const unsigned char *at, uint32_t size, int kind)
{
    switch (kind) {
    case MM_TEXT:
        return PyUnicode_DecodeUTF8((const char *)at, size, NULL);
    case MM_BYTES:
        return PyBytes_FromStringAndSize((const char *)at, size);
    case MM_DOUBLE:
    case MM_FLOAT:
        return read_number(at, size, kind);
    case MM_UINT16:
    case MM_UINT32:
    case MM_INT32:
    case MM_UINT64:
    case MM_UINT128:
        return read_whole(at, size, kind);
    default:
        return NULL;
    }
}

static PyObject *read_map(const unsigned char **at, const unsigned char *end, uint32_t size, int depth)
{
    PyObject *found = PyDict_New();
    for (uint32_t left = size; found && left > 0; left--) {
        int kind;
        uint32_t length;
        PyObject *key = NULL, *value = NULL;
        if (read_head(at, end, &kind, &length) && kind == MM_TEXT && (uint64_t)(end - *at) >= length) {
            key = PyUnicode_DecodeUTF8((const char *)*at, length, NULL);
            *at += length;
            value = key ? plain_value(at, end, depth) : NULL;
        }
        if (!value || PyDict_SetItem(found, key, value) < 0)
            Py_CLEAR(found);
        Py_XDECREF(key);
        Py_XDECREF(value);
    }
    if (found && (uint64_t)PyDict_Size(found) != size) /* a key came twice */
        Py_CLEAR(found);
    return found;
}

static PyObject *read_array(const unsigned char **at, const unsigned char *end, uint32_t size, int depth)
{
    PyObject *found = PyList_New(0);
    for (; found && size > 0; size--) {
        PyObject *value = plain_value(at, end, depth);
        if (!value || PyList_Append(found, value) < 0)
            Py_CLEAR(found);
        Py_XDECREF(value);
    }
    return found;
}

/* The value at a place, which then is behind it; NULL, with an error set or not, if there is none. */
static PyObject *plain_value(const unsigned char **at, const unsigned char *end, int depth)
{
    int kind;
    uint32_t size;
    if (!read_head(at, end, &kind, &size))
        return NULL;
    if (kind == MM_MAP || kind == MM_ARRAY) {
        if (depth >= DEEPEST)
            return NULL;
        return (kind == MM_MAP ? read_map : read_array)(at, end, size, depth + 1);
    }
    if (kind == MM_BOOLEAN)
        return size > 1 ? NULL : PyBool_FromLong((long)size);
    if ((uint64_t)(end - *at) < size)
        return NULL;
    const unsigned char *content = *at;
    *at += size;
    return read_leaf(content, size, kind);
}

/* The value of some bytes, or None if mmdb.plain has to say what is wrong with them. */
static PyObject *module_plain(PyObject *self, PyObject *octets)
{
    Py_ssize_t size;
    char *data;
    (void)self;
    if (PyBytes_AsStringAndSize(octets, &data, &size) < 0)
        return NULL;
    const unsigned char *at = (const unsigned char *)data, *end = at + size;
    PyObject *found = size > LARGEST ? NULL : plain_value(&at, end, 0);
    if (found && at == end)
        return found;
    Py_XDECREF(found);
    if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_UnicodeDecodeError))
        return NULL;
    PyErr_Clear();
    Py_RETURN_NONE;
}
