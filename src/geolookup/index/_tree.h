/* The search tree of a MaxMind DB, from the addresses at which its values change. exports/mmdb/tree.py says what it is,
 * and is its oracle. */

#pragma once

#include <Python.h>

#include <stdint.h>

enum { TREE_BITS = 128 };

/* How far it is laid. `open` has the nodes that contain the newest boundary, by their depths up to `deepest`. */
typedef struct {
    uint32_t *records; /* two for each node, or NULL if nodes are only counted */
    uint64_t room, count, open[TREE_BITS];
    unsigned char has_right[TREE_BITS];
    int deepest, has_begun;
    uint64_t hi, lo; /* where the newest segment begins */
    uint32_t value;  /* and what both halves of nodes get where they end in it */
} Laid;

/* Leave the nodes below a depth: nothing more lies in their right halves. */
static void leave_nodes(Laid *laid, int depth)
{
    for (; laid->deepest > depth; laid->deepest--)
        if (laid->records && !laid->has_right[laid->deepest])
            laid->records[2 * laid->open[laid->deepest] + 1] = laid->value;
}

/* Open a node below the deepest one. False if there is no room. */
static int open_node(Laid *laid, uint64_t hi, uint64_t lo)
{
    int depth = laid->deepest++, right;
    if (laid->records) {
        if (laid->count >= laid->room)
            return 0;
        if (depth >= 0) {
            right = (int)((depth < 64 ? hi : lo) >> (63 - depth % 64) & 1);
            laid->records[2 * laid->open[depth] + right] = (uint32_t)laid->count;
            laid->has_right[depth] |= (unsigned char)right;
        }
        laid->records[2 * laid->count] = laid->value;
    }
    laid->has_right[depth + 1] = 0;
    laid->open[depth + 1] = laid->count++;
    return 1;
}

/* Take segments, the first of all at address 0. False if they do not ascend, or there is no room. */
static int lay(Laid *laid, const uint64_t *his, const uint64_t *los, const uint32_t *values, uint64_t segments)
{
    for (uint64_t i = 0; i < segments; i++) {
        uint64_t hi = his[i], lo = los[i];
        if (laid->has_begun) {
            if (hi < laid->hi || (hi == laid->hi && lo <= laid->lo))
                return 0;
            /* It leaves the nodes whose prefix it does not share, and opens those in which it is the first boundary. */
            leave_nodes(laid, hi != laid->hi ? __builtin_clzll(hi ^ laid->hi) : 64 + __builtin_clzll(lo ^ laid->lo));
            for (int depth = lo ? 127 - __builtin_ctzll(lo) : 63 - __builtin_ctzll(hi); laid->deepest < depth;)
                if (!open_node(laid, hi, lo))
                    return 0;
        }
        laid->has_begun = 1;
        laid->hi = hi;
        laid->lo = lo;
        laid->value = values[i];
    }
    return 1;
}

/* Lay what one tuple of columns has. False with an error set. */
static int lay_part(Laid *laid, PyObject *part)
{
    PyObject *columns[3];
    Py_buffer found[3];
    int taken = 0, is_laid = 0;
    if (!PyTuple_Check(part)) {
        PyErr_SetString(PyExc_TypeError, "each part is a tuple of columns");
        return 0;
    }
    if (!PyArg_ParseTuple(part, "OOO", &columns[0], &columns[1], &columns[2]))
        return 0;
    while (taken < 3 && PyObject_GetBuffer(columns[taken], &found[taken], PyBUF_SIMPLE) == 0)
        taken++;
    if (taken == 3) {
        uint64_t segments = (uint64_t)found[2].len / 4;
        uintptr_t places = (uintptr_t)found[0].buf | (uintptr_t)found[1].buf | (uintptr_t)found[2].buf << 1;
        if (places % 8 == 0 && (uint64_t)found[0].len == 8 * segments && (uint64_t)found[1].len == 8 * segments)
            is_laid = lay(laid, found[0].buf, found[1].buf, found[2].buf, segments);
        if (!is_laid)
            PyErr_SetString(PyExc_ValueError, "aligned columns of segments that ascend, and two records for each node");
    }
    while (taken-- > 0)
        PyBuffer_Release(&found[taken]);
    return is_laid;
}

static PyObject *module_tree(PyObject *module, PyObject *arguments)
{
    PyObject *parts, *records;
    Py_buffer found = {NULL};
    Laid laid = {NULL};
    int is_laid = 1;
    if (!PyArg_ParseTuple(arguments, "O!O", &PyList_Type, &parts, &records) ||
        (records != Py_None && PyObject_GetBuffer(records, &found, PyBUF_WRITABLE) < 0))
        return NULL;
    laid.deepest = -1;
    if (found.obj && (uintptr_t)found.buf % 4 == 0) {
        laid.records = found.buf;
        laid.room = (uint64_t)found.len / 8;
    }
    for (Py_ssize_t i = 0; is_laid && i < PyList_Size(parts); i++)
        is_laid = lay_part(&laid, PyList_GetItem(parts, i));
    leave_nodes(&laid, -1);
    if (found.obj)
        PyBuffer_Release(&found);
    return is_laid ? PyLong_FromUnsignedLongLong(laid.count) : NULL;
}
