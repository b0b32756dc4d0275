/* The objects that stand for a Network: an address and the record of what is said of it. All else is made when it is
 * asked for, the facts without a type in Python.
 *
 * One has a reference to the layer of networks that it is from, so the sections stay mapped for as long as it is kept.
 * That its ends can be found was seen when it was made.
 * All of it needs the GIL. */

#pragma once

#include "_match.h"

typedef struct {
    PyObject_HEAD
    PyObject *address; /* text that `parse` takes; NULL, with the layer, in one that was not made here */
    Layer *layer;
    uint32_t record;
} NetworkView;

/* The largest range around an address in which all is said alike; false if the layer is damaged there. */
static int network_piece(const Index *index, int family, Value at, Piece *piece)
{
    Piece held;
    if (!piece_of(index, family, at, piece))
        return 0;
    if (piece->slot != EMPTY || !is_alias(family, at.hi))
        return 1;
    if (!piece_of(index, 4, (Value){0, held_in(at.hi)}, &held))
        return 0;
    take_held(piece, held);
    return 1;
}

/* The object for an address, or None. NULL, perhaps with an error set, if the slow way must answer; `object` is of a type
 * of this module. */
static PyObject *network_of(Searcher *searcher, PyObject *object, PyObject *address, int family, Value at)
{
    if (!has_networks(searcher, object))
        return NULL;
    Layer *layer = searcher->networks;
    if (!layer)
        Py_RETURN_NONE;
    expect(&layer->index, 1);
    Piece piece;
    if (!layer->network || !network_piece(&layer->index, family, at, &piece))
        return NULL;
    if (piece.slot == EMPTY)
        Py_RETURN_NONE;
    NetworkView *self = (NetworkView *)PyType_GenericAlloc(layer->network, 0);
    if (self) {
        self->address = Py_NewRef(address);
        self->layer = (Layer *)Py_NewRef((PyObject *)layer);
        self->record = piece.record;
    }
    return (PyObject *)self;
}

static void NetworkView_dealloc(PyObject *object)
{
    NetworkView *self = (NetworkView *)object;
    PyTypeObject *type = Py_TYPE(object);
    Py_XDECREF(self->address);
    Py_XDECREF((PyObject *)self->layer);
    PyObject_Free(object);
    Py_DECREF(type);
}

static int makes_networks(PyTypeObject *type)
{
    return PyType_GetSlot(type, Py_tp_dealloc) == (void *)NetworkView_dealloc;
}

static int stands_for_nothing(const NetworkView *self)
{
    if (!self->layer)
        PyErr_SetString(PyExc_TypeError, "this object stands for no network");
    return !self->layer;
}

static PyObject *Network_fact(PyObject *object, void *closure)
{
    NetworkView *self = (NetworkView *)object;
    if (stands_for_nothing(self))
        return NULL;
    if (!self->layer->facts)
        Py_RETURN_NONE;
    return fact_of(self->layer->facts, (size_t)closure, self->record, NULL, 0, object);
}

enum { OF_ADDRESS, OF_RECORD, OF_RECORDS, OF_FIRST, OF_LAST, OF_NETWORK };

static PyObject *Network_own(PyObject *object, void *closure)
{
    NetworkView *self = (NetworkView *)object;
    Value at;
    Piece piece;
    if (stands_for_nothing(self))
        return NULL;
    switch ((int)(size_t)closure) {
    case OF_ADDRESS:
        return Py_NewRef(self->address);
    case OF_RECORD:
        return PyLong_FromUnsignedLong(self->record);
    case OF_RECORDS:
        return Py_NewRef(self->layer->records);
    default: {
        int which = (int)(size_t)closure, family = value_of(self->address, &at);
        if (!family || !network_piece(&self->layer->index, family, at, &piece))
            return damaged(object);
        return range_text(family, at, &piece, which == OF_FIRST ? FIRST : which == OF_LAST ? LAST : NETWORK);
    }
    }
}

/* A type of objects that stand for a Network: by the names of its typed facts in the order of `Facts`. */
static PyObject *module_network_type(PyObject *module, PyObject *arguments)
{
    PyObject *facts, *class;
    if (!PyArg_ParseTuple(arguments, "O!O!", &PyTuple_Type, &facts, &PyType_Type, &class))
        return NULL;
    PyObject *own = Py_BuildValue("(ssssss)", "address", "_record", "_records", "first", "last", "network");
    if (!own)
        return NULL;
    const Getters getters[] = {{own, Network_own, 0}, {facts, Network_fact, 0}};
    PyObject *type = type_of(module, "geolookup.index._native.NetworkView", sizeof(NetworkView), NetworkView_dealloc,
                             class, getters, 2);
    Py_DECREF(own);
    return type;
}
