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

/* None, which leaves it to Python to say what is wrong, or NULL if something else is. */
static PyObject *no_value(void)
{
    if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_UnicodeDecodeError))
        return NULL;
    PyErr_Clear();
    Py_RETURN_NONE;
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
    return no_value();
}

/* A number of 1, 2 or 4 bytes at an index; -1 if it is not there. */
static int64_t number_at(const Py_buffer *items, Py_ssize_t at)
{
    Py_ssize_t size = items->itemsize;
    if (at < 0 || at >= items->len / size || (size != 1 && size != 2 && size != 4))
        return -1;
    const unsigned char *p = (const unsigned char *)items->buf + at * size;
    uint16_t half;
    uint32_t whole;
    if (size == 1)
        return *p;
    if (size == 2) {
        memcpy(&half, p, sizeof half);
        return half;
    }
    memcpy(&whole, p, sizeof whole);
    return whole;
}

/* The part of a number; NULL, with an error set or not, if it is damaged. */
static PyObject *part_of_number(const Py_buffer *offsets, const Py_buffer *octets, int64_t number)
{
    int64_t begin = number_at(offsets, (Py_ssize_t)number), last = number_at(offsets, (Py_ssize_t)number + 1);
    if (begin < 0 || last < begin || last > octets->len || last - begin > LARGEST)
        return NULL;
    const unsigned char *at = (const unsigned char *)octets->buf + begin, *end = (const unsigned char *)octets->buf + last;
    PyObject *found = plain_value(&at, end, 0);
    if (found && at != end)
        Py_CLEAR(found);
    return found;
}

/* All parts of a record by their keys, or None if one is damaged: columns are (key, the part's number by record). */
static PyObject *module_parts(PyObject *self, PyObject *arguments)
{
    (void)self;
    PyObject *columns, *of_offsets, *of_octets, *found;
    Py_buffer offsets, octets, numbers;
    Py_ssize_t record;
    if (!PyArg_ParseTuple(arguments, "O!OOn", &PyTuple_Type, &columns, &of_offsets, &of_octets, &record))
        return NULL;
    if (PyObject_GetBuffer(of_offsets, &offsets, PyBUF_FORMAT | PyBUF_ND) < 0)
        return NULL;
    if (PyObject_GetBuffer(of_octets, &octets, PyBUF_SIMPLE) < 0) {
        PyBuffer_Release(&offsets);
        return NULL;
    }
    found = PyDict_New();
    for (Py_ssize_t i = 0; found && i < PyTuple_Size(columns); i++) {
        PyObject *pair = PyTuple_GetItem(columns, i), *key = NULL, *buffer = NULL, *part = NULL;
        if (!PyArg_ParseTuple(pair, "OO", &key, &buffer) || PyObject_GetBuffer(buffer, &numbers, PyBUF_FORMAT | PyBUF_ND) < 0) {
            Py_CLEAR(found);
            break;
        }
        int64_t number = number_at(&numbers, record);
        PyBuffer_Release(&numbers);
        if (!number)
            continue;
        part = number < 0 ? NULL : part_of_number(&offsets, &octets, number);
        if (!part || PyDict_SetItem(found, key, part) < 0)
            Py_CLEAR(found);
        Py_XDECREF(part);
    }
    PyBuffer_Release(&offsets);
    PyBuffer_Release(&octets);
    return found ? found : no_value();
}
