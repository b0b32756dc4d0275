/* Open index files: the layer that one is, with its places, and two of them as they are searched together. */

#pragma once

#include "_facts.h"
#include "_places.h"
#include "_search.h"
#include "_state.h"

enum { V4_LOW, V4_SLOT, V4_SLOT_HIGH, V4_TABLE, V6_HI, V6_LO, V6_SLOT, V6_SLOT_HIGH, V6_TABLE, RECORD_SLOT, SECTION_COUNT };

/* The search sections of one open index file, which stay mapped for as long as this lives; its places and facts, or
 * NULL. */
typedef struct {
    PyObject_HEAD
    Py_buffer sections[SECTION_COUNT];
    Index index;
    Places *places;
    Facts *facts;
    /* Of the layer of networks: the type of the objects that stand for a Network, and what these ask in Python. */
    PyTypeObject *network;
    PyObject *records;
} Layer;

/* Both layers of places; the type of the objects that stand for a Match, or NULL; the layer of networks, or NULL if there
 * is none, or it was not asked for yet: then `open_networks`, which is not NULL, opens it. */
typedef struct {
    PyObject_HEAD
    Layer *base, *overlay, *networks;
    PyTypeObject *match;
    PyObject *open_networks;
} Searcher;

static int makes_matches(PyTypeObject *type);
static int makes_networks(PyTypeObject *type);

static PyObject *Layer_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    static const char *names[] = {"sections", "locations", "places", "facts", "network", "records", NULL};
    static const int sizes[SECTION_COUNT] = {2, 2, 1, 4, 8, 8, 2, 1, 4, 4};
    static const int of_family[SECTION_COUNT] = {V4_LOW, V4_LOW, V4_LOW, 0, V6_HI,
                                                    V6_HI, V6_HI, V6_HI, 0, RECORD_SLOT};
    static const char is_optional[SECTION_COUNT] = {[V4_SLOT_HIGH] = 1, [V6_LO] = 1, [V6_SLOT_HIGH] = 1,
                                                     [RECORD_SLOT] = 1};
    State *state = PyType_GetModuleState(type);
    PyObject *given, *places = Py_None, *facts = Py_None, *network = Py_None, *records = Py_None;
    Py_ssize_t locations;
    if (!state || !PyArg_ParseTupleAndKeywords(arguments, keywords, "O!n|OOOO", (char **)names, &PyTuple_Type, &given,
                                               &locations, &places, &facts, &network, &records))
        return NULL;
    if ((places != Py_None && !Py_IS_TYPE(places, (PyTypeObject *)state->places_type)) ||
        (facts != Py_None && !Py_IS_TYPE(facts, (PyTypeObject *)state->facts_type))) {
        PyErr_SetString(PyExc_TypeError, "places, or None; facts, or None");
        return NULL;
    }
    if (network != Py_None && !(PyType_Check(network) && makes_networks((PyTypeObject *)network))) {
        PyErr_SetString(PyExc_TypeError, "a type of `network_type`, or None");
        return NULL;
    }
    if (PyTuple_Size(given) != SECTION_COUNT || locations < 0 || locations >= (Py_ssize_t)0x7FFFFFFC ||
        (places != Py_None && ((Places *)places)->count != (uint32_t)locations)) {
        PyErr_SetString(PyExc_ValueError, "ten sections, less than 2**31 - 4 locations, and places of as many");
        return NULL;
    }
    Layer *self = (Layer *)PyType_GenericAlloc(type, 0);
    if (!self)
        return NULL;
    Py_ssize_t items[SECTION_COUNT];
    for (int i = 0; i < SECTION_COUNT; i++) {
        Py_buffer *section = &self->sections[i];
        PyObject *buffer = PyTuple_GetItem(given, i);
        items[i] = 0;
        if (buffer == Py_None && is_optional[i])
            continue;
        if (PyObject_GetBuffer(buffer, section, PyBUF_SIMPLE) < 0)
            goto failed;
        items[i] = section->len / sizes[i];
        if (section->len % sizes[i] || (uintptr_t)section->buf % sizes[i] || items[i] < 1 ||
            items[i] >= (Py_ssize_t)EMPTY)
            goto unfit;
    }
    for (int i = 0; i < SECTION_COUNT; i++) {
        int is_table = i == V4_TABLE || i == V6_TABLE;
        if (self->sections[i].buf && items[i] != (is_table ? TABLE_LENGTH : items[of_family[i]]))
            goto unfit;
    }
    Index *index = &self->index;
    index->keys4.at = self->sections[V4_LOW].buf;
    const uint32_t *of_record = self->sections[RECORD_SLOT].buf;
    uint32_t record_count = (uint32_t)items[RECORD_SLOT];
    index->slots4 = (Slots){self->sections[V4_SLOT].buf, self->sections[V4_SLOT_HIGH].buf, of_record, record_count};
    index->table4 = self->sections[V4_TABLE].buf;
    index->keys6.at[0] = self->sections[V6_HI].buf;
    index->lo6 = self->sections[V6_LO].buf;
    index->slots6 = (Slots){self->sections[V6_SLOT].buf, self->sections[V6_SLOT_HIGH].buf, of_record, record_count};
    index->table6 = self->sections[V6_TABLE].buf;
    index->count4 = (uint32_t)items[V4_LOW];
    index->count6 = (uint32_t)items[V6_HI];
    index->begin = UINTPTR_MAX;
    for (int i = 0; i < SECTION_COUNT; i++) {
        uintptr_t begin = (uintptr_t)self->sections[i].buf, end = begin + (uintptr_t)self->sections[i].len;
        if (begin) {
            index->begin = begin < index->begin ? begin : index->begin;
            index->end = end > index->end ? end : index->end;
        }
    }
    self->places = places == Py_None ? NULL : (Places *)Py_NewRef(places);
    self->facts = facts == Py_None ? NULL : (Facts *)Py_NewRef(facts);
    self->network = network == Py_None ? NULL : (PyTypeObject *)Py_NewRef(network);
    self->records = Py_NewRef(records);
    self->index.locations = (uint32_t)locations;
    self->index.until_next = AHEAD_AFTER;
    return (PyObject *)self;
unfit:
    PyErr_SetString(PyExc_ValueError, "the sections do not fit each other, or are not aligned");
failed:
    Py_DECREF(self);
    return NULL;
}

static void Layer_dealloc(PyObject *object)
{
    Layer *self = (Layer *)object;
    PyTypeObject *type = Py_TYPE(object);
    Py_XDECREF((PyObject *)self->places);
    Py_XDECREF((PyObject *)self->facts);
    Py_XDECREF((PyObject *)self->network);
    Py_XDECREF(self->records);
    for (int level = 1; level < LEVELS; level++)
        PyMem_Free((void *)self->index.keys6.at[level]);
    PyMem_Free(self->index.keys4.lines);
    for (int i = 0; i < SECTION_COUNT; i++)
        PyBuffer_Release(&self->sections[i]); /* one that was never filled has no owner, and this does nothing */
    PyObject_Free(object);
    Py_DECREF(type);
}

static PyObject *Searcher_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    static const char *names[] = {"base", "overlay", "match", "open_networks", NULL};
    State *state = PyType_GetModuleState(type);
    PyObject *base, *overlay, *match = Py_None, *open_networks = Py_None;
    if (!state || !PyArg_ParseTupleAndKeywords(arguments, keywords, "O!O!|OO", (char **)names, state->layer_type, &base,
                                               state->layer_type, &overlay, &match, &open_networks))
        return NULL;
    if (match != Py_None && !(PyType_Check(match) && makes_matches((PyTypeObject *)match))) {
        PyErr_SetString(PyExc_TypeError, "a type of `match_type`, or None");
        return NULL;
    }
    Searcher *self = (Searcher *)PyType_GenericAlloc(type, 0);
    if (self) {
        self->base = (Layer *)Py_NewRef(base);
        self->overlay = (Layer *)Py_NewRef(overlay);
        self->match = match == Py_None ? NULL : (PyTypeObject *)Py_NewRef(match);
        self->open_networks = open_networks == Py_None ? NULL : Py_NewRef(open_networks);
    }
    return (PyObject *)self;
}

static void Searcher_dealloc(PyObject *object)
{
    Searcher *self = (Searcher *)object;
    PyTypeObject *type = Py_TYPE(object);
    Py_XDECREF((PyObject *)self->base);
    Py_XDECREF((PyObject *)self->overlay);
    Py_XDECREF((PyObject *)self->networks);
    Py_XDECREF((PyObject *)self->match);
    Py_XDECREF(self->open_networks);
    PyObject_Free(object);
    Py_DECREF(type);
}
