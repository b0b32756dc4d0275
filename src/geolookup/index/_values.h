/* Self-contained values of MaxMind DBs as Python objects, as mmdb.plain reads them. All of it needs the GIL. */

#pragma once

#include "_facts.h"

/* As in mmdb.py: maps and arrays inside each other, and bytes of one value. */
enum { DEEPEST = 64, LARGEST = 1 << 20 };

/* Where it is read: the next byte, the end of all bytes, and the keys of maps that are known. */
typedef struct {
    const unsigned char *at, *end;
    Key *keys;
} Reading;

static PyObject *plain_value(Reading *reading, int depth);

/* A new reference to the text of a key, which most maps share with others: then neither its text nor its hash is made. */
static PyObject *read_key(Key *keys, const unsigned char *octets, uint32_t size)
{
    uint32_t hash = size;
    if (size > LONGEST_KEY)
        return PyUnicode_DecodeUTF8((const char *)octets, size, NULL);
    for (uint32_t i = 0; i < size; i++)
        hash = hash * 31 + octets[i];
    Key *key = &keys[(hash ^ hash >> 8) % KEYS];
    if (!key->found || key->size != size || memcmp(key->octets, octets, size)) {
        PyObject *made = PyUnicode_DecodeUTF8((const char *)octets, size, NULL);
        if (!made)
            return NULL;
        Py_XDECREF(key->found);
        key->found = made;
        key->size = (unsigned char)size;
        memcpy(key->octets, octets, size);
    }
    return Py_NewRef(key->found);
}

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

static PyObject *read_map(Reading *reading, uint32_t size, int depth)
{
    PyObject *found = PyDict_New();
    for (uint32_t left = size; found && left > 0; left--) {
        int kind;
        uint32_t length;
        PyObject *key = NULL, *value = NULL;
        if (read_head(&reading->at, reading->end, &kind, &length) && kind == MM_TEXT &&
            (uint64_t)(reading->end - reading->at) >= length) {
            key = read_key(reading->keys, reading->at, length);
            reading->at += length;
            value = key ? plain_value(reading, depth) : NULL;
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

static PyObject *read_array(Reading *reading, uint32_t size, int depth)
{
    PyObject *found = PyList_New(0);
    for (; found && size > 0; size--) {
        PyObject *value = plain_value(reading, depth);
        if (!value || PyList_Append(found, value) < 0)
            Py_CLEAR(found);
        Py_XDECREF(value);
    }
    return found;
}

/* The value at a place, which then is behind it; NULL, with an error set or not, if there is none. */
static PyObject *plain_value(Reading *reading, int depth)
{
    int kind;
    uint32_t size;
    if (!read_head(&reading->at, reading->end, &kind, &size))
        return NULL;
    if (kind == MM_MAP || kind == MM_ARRAY) {
        if (depth >= DEEPEST)
            return NULL;
        return (kind == MM_MAP ? read_map : read_array)(reading, size, depth + 1);
    }
    if (kind == MM_BOOLEAN)
        return size > 1 ? NULL : PyBool_FromLong((long)size);
    if ((uint64_t)(reading->end - reading->at) < size)
        return NULL;
    const unsigned char *content = reading->at;
    reading->at += size;
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

/* The parts of records: where each begins, and their bytes. */
typedef struct {
    Py_buffer offsets, octets;
    Key *keys;
} Parts;

static int take_parts(Parts *parts, PyObject *module, PyObject *offsets, PyObject *octets)
{
    parts->keys = ((State *)PyModule_GetState(module))->keys;
    if (PyObject_GetBuffer(offsets, &parts->offsets, PyBUF_FORMAT | PyBUF_ND) < 0)
        return 0;
    if (PyObject_GetBuffer(octets, &parts->octets, PyBUF_SIMPLE) == 0)
        return 1;
    PyBuffer_Release(&parts->offsets);
    return 0;
}

static void release_parts(Parts *parts)
{
    PyBuffer_Release(&parts->offsets);
    PyBuffer_Release(&parts->octets);
}

/* The part of a number; NULL, with an error set or not, if it is damaged. */
static PyObject *part_of_number(const Parts *parts, Py_ssize_t number)
{
    int64_t begin = number_at(&parts->offsets, number), last = number_at(&parts->offsets, number + 1);
    if (begin < 0 || last < begin || last > parts->octets.len || last - begin > LARGEST)
        return NULL;
    const unsigned char *octets = parts->octets.buf;
    Reading reading = {octets + begin, octets + last, parts->keys};
    PyObject *found = plain_value(&reading, 0);
    if (found && reading.at != reading.end)
        Py_CLEAR(found);
    return found;
}

/* The part of a number, or None if it is damaged: mmdb.plain says how. */
static PyObject *module_part(PyObject *module, PyObject *arguments)
{
    PyObject *offsets, *octets;
    Py_ssize_t number;
    Parts parts;
    if (!PyArg_ParseTuple(arguments, "OOn", &offsets, &octets, &number) || !take_parts(&parts, module, offsets, octets))
        return NULL;
    PyObject *found = part_of_number(&parts, number);
    release_parts(&parts);
    return found ? found : no_value();
}

/* The first part from a number on that is damaged, or not to be read here: mmdb.plain says which. */
static PyObject *module_unread(PyObject *module, PyObject *arguments)
{
    PyObject *offsets, *octets, *found = NULL;
    Py_ssize_t number;
    Parts parts;
    if (!PyArg_ParseTuple(arguments, "OOn", &offsets, &octets, &number) || !take_parts(&parts, module, offsets, octets))
        return NULL;
    for (; (found = part_of_number(&parts, number)); number++)
        Py_DECREF(found);
    release_parts(&parts);
    found = no_value();
    Py_XDECREF(found);
    return found ? PyLong_FromSsize_t(number) : NULL;
}

/* All parts of a record by their keys, or None if one is damaged: columns are (key, the part's number by record). */
static PyObject *module_parts(PyObject *module, PyObject *arguments)
{
    PyObject *columns, *offsets, *octets, *found;
    Py_buffer numbers;
    Py_ssize_t record;
    Parts parts;
    if (!PyArg_ParseTuple(arguments, "O!OOn", &PyTuple_Type, &columns, &offsets, &octets, &record) ||
        !take_parts(&parts, module, offsets, octets))
        return NULL;
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
        part = number < 0 ? NULL : part_of_number(&parts, (Py_ssize_t)number);
        if (!part || PyDict_SetItem(found, key, part) < 0)
            Py_CLEAR(found);
        Py_XDECREF(part);
    }
    release_parts(&parts);
    return found ? found : no_value();
}
