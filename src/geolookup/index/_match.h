/* The objects that stand for a Match: an address and where its answer is. All else is made when it is asked for.
 *
 * One has a reference to the searcher that found it, so the sections stay mapped for as long as it is kept. That its
 * ends, texts and source can be read was seen when it was made. All of it needs the GIL. */

#pragma once

#include "_layers.h"

typedef struct {
    PyObject_HEAD
    PyObject *address; /* text that `parse` takes; NULL, with the searcher, in one that was not made here */
    Searcher *searcher;
    uint32_t slot; /* with OVERLAY in it */
    uint32_t record;
} MatchView;

/* ---- Ranges ---- */

typedef struct {
    uint64_t hi, lo;
} Value;

static inline int is_after(Value one, Value other)
{
    return one.hi > other.hi || (one.hi == other.hi && one.lo > other.lo);
}

/* The inclusive range of a segment or gap, and its slot: that of a layer, or, with OVERLAY in it, of the custom one. The
 * record is that of the address which was asked for. */
typedef struct {
    Value first, last;
    uint32_t slot, record;
} Piece;

/* Where a segment of IPv4 begins; false if the table leads nowhere. Most begin where the address has its upper bits. */
static int begin4(const Index *index, uint32_t position, uint32_t likely, uint64_t *first)
{
    const uint32_t *table = index->table4;
    uint32_t prefix = likely;
    if (table[prefix] > position || position >= table[prefix + 1]) {
        uint32_t low = 0, high = TABLE_LENGTH;
        while (low < high) {
            uint32_t middle = low + (high - low) / 2;
            if (table[middle] <= position)
                low = middle + 1;
            else
                high = middle;
        }
        if (low == 0 || low > TABLE_LENGTH - 1)
            return 0;
        prefix = low - 1;
    }
    *first = (uint64_t)prefix << 16 | index->keys4.at[position];
    return 1;
}

static int begin(const Index *index, int family, uint32_t position, Value around, Value *first)
{
    if (family == 4)
        return begin4(index, position, (uint32_t)around.lo >> 16, &first->lo);
    *first = (Value){index->keys6.at[0][position], index->lo6 ? index->lo6[position] : 0};
    return 1;
}

/* The segment or gap of one layer around an address; false if it is damaged there. */
static int piece_of(const Index *index, int family, Value at, Piece *piece)
{
    uint32_t position = family == 4 ? position4(index, (uint32_t)at.lo) : position6(index, at.hi, at.lo);
    if (position == DAMAGED)
        return 0;
    const Slots *slots = family == 4 ? &index->slots4 : &index->slots6;
    uint32_t count = family == 4 ? index->count4 : index->count6, after = position + 1, next;
    piece->slot = slot_and_record_at(slots, position, index->locations, &piece->record);
    if (piece->slot == DAMAGED)
        return 0;
    if (slots->of_record) { /* neighbours may be of the same place */
        while (position && (next = slot_at(slots, position - 1, index->locations)) == piece->slot)
            position--;
        if (position && next == DAMAGED)
            return 0;
        while (after < count && (next = slot_at(slots, after, index->locations)) == piece->slot)
            after++;
        if (after < count && next == DAMAGED)
            return 0;
    }
    piece->first = (Value){0, 0};
    piece->last = (Value){family == 4 ? 0 : UINT64_MAX, family == 4 ? UINT32_MAX : UINT64_MAX};
    if (!begin(index, family, position, at, &piece->first))
        return 0;
    if (after < count) {
        if (!begin(index, family, after, at, &piece->last) || !(piece->last.hi | piece->last.lo))
            return 0;
        piece->last.hi -= !piece->last.lo;
        piece->last.lo--;
    }
    return !is_after(piece->first, at) && !is_after(at, piece->last);
}

static inline void clip(Piece *piece, const Piece *to)
{
    if (is_after(to->first, piece->first))
        piece->first = to->first;
    if (is_after(piece->last, to->last))
        piece->last = to->last;
}

/* Give a gap of 6to4 addresses the answer of the IPv4 addresses in them. */
static void take_held(Piece *piece, Piece held)
{
    held.first = (Value){(uint64_t)0x2002 << 48 | held.first.lo << 16, 0};
    held.last = (Value){(uint64_t)0x2002 << 48 | held.last.lo << 16 | 0xFFFF, UINT64_MAX};
    clip(piece, &held);
    piece->slot = held.slot;
    piece->record = held.record;
}

/* The largest range around an address that has one answer from one layer; false if a layer is damaged there. */
static int piece_of_both(const Searcher *self, int family, Value at, Piece *piece)
{
    Piece over = {.slot = EMPTY};
    const Index *overlay = &self->overlay->index;
    if (overlay->locations && !piece_of(overlay, family, at, &over))
        return 0;
    if (over.slot != EMPTY) {
        *piece = over;
        piece->slot |= OVERLAY;
        return 1;
    }
    if (!piece_of(&self->base->index, family, at, piece))
        return 0;
    if (overlay->locations)
        clip(piece, &over);
    if (piece->slot != EMPTY || !is_alias(family, at.hi))
        return 1;
    Piece held;
    if (!piece_of_both(self, 4, (Value){0, held_in(at.hi)}, &held))
        return 0;
    take_held(piece, held);
    return 1;
}

/* The prefix length of the largest network inside a range that holds an address of it. */
static int network_around(int family, Value at, const Piece *piece)
{
    int length = family == 4 ? 32 : 128;
    for (; length > 0; length--) {
        int host = (family == 4 ? 32 : 128) - length + 1;
        Value bits = {host > 64 ? UINT64_MAX >> (128 - host) : 0, host >= 64 ? UINT64_MAX : ((uint64_t)1 << host) - 1};
        Value low = {at.hi & ~bits.hi, at.lo & ~bits.lo}, high = {at.hi | bits.hi, at.lo | bits.lo};
        if (is_after(piece->first, low) || is_after(high, piece->last))
            break;
    }
    return length;
}

/* ---- One answer ---- */

/* The object for an address, or None. NULL, without an error set, if something is damaged, or matches are not made here. */
static PyObject *match_of(Searcher *searcher, PyObject *address, int family, Value at)
{
    Piece piece;
    if (!searcher->match || !piece_of_both(searcher, family, at, &piece))
        return NULL;
    if (piece.slot == EMPTY)
        Py_RETURN_NONE;
    const Layer *layer = piece.slot & OVERLAY ? searcher->overlay : searcher->base;
    uint32_t slot = piece.slot & ~OVERLAY;
    if (!layer->places || !is_sound(layer->places, slot))
        return NULL;
    ask_for_fields(layer->places, slot);
    if (layer->facts)
        ask_for_facts(layer->facts, piece.record);
    MatchView *self = (MatchView *)PyType_GenericAlloc(searcher->match, 0);
    if (self) {
        self->address = Py_NewRef(address);
        self->searcher = (Searcher *)Py_NewRef((PyObject *)searcher);
        self->slot = piece.slot;
        self->record = piece.record;
    }
    return (PyObject *)self;
}

static void MatchView_dealloc(PyObject *object)
{
    MatchView *self = (MatchView *)object;
    PyTypeObject *type = Py_TYPE(object);
    Py_XDECREF(self->address);
    Py_XDECREF((PyObject *)self->searcher);
    PyObject_Free(object);
    Py_DECREF(type);
}

static int makes_matches(PyTypeObject *type)
{
    return PyType_GetSlot(type, Py_tp_dealloc) == (void *)MatchView_dealloc;
}

/* Its layer; NULL with an error set if it stands for nothing. */
static Layer *layer_of(const MatchView *self)
{
    if (self->searcher)
        return self->slot & OVERLAY ? self->searcher->overlay : self->searcher->base;
    PyErr_SetString(PyExc_TypeError, "this object stands for no match");
    return NULL;
}

/* The family of the address of a view. */
static int value_of(PyObject *address, Value *at)
{
    Py_ssize_t length;
    const char *text = PyUnicode_AsUTF8AndSize(address, &length);
    *at = (Value){0, 0};
    return text ? parse(text, length, &at->hi, &at->lo) : 0;
}

/* The locid, or a field of the place. */
static PyObject *Match_field(PyObject *object, void *closure)
{
    MatchView *self = (MatchView *)object;
    Layer *layer = layer_of(self);
    return layer ? place_value(layer->places, self->slot & ~OVERLAY, (size_t)closure, object) : NULL;
}

static PyObject *Match_place_fact(PyObject *object, void *closure)
{
    MatchView *self = (MatchView *)object;
    Layer *layer = layer_of(self);
    if (!layer)
        return NULL;
    if (!layer->facts)
        Py_RETURN_NONE;
    return fact_of(layer->facts, (size_t)closure, self->record, layer->places, self->slot & ~OVERLAY, object);
}

/* Open the layer of networks if that was not done; false with an error set if it cannot be. */
static int has_networks(Searcher *self, PyObject *object)
{
    if (!self->open_networks)
        return 1;
    State *state = PyType_GetModuleState(Py_TYPE(object));
    PyObject *opener = Py_NewRef(self->open_networks), *found = state ? PyObject_CallNoArgs(opener) : NULL;
    Py_DECREF(opener);
    if (!found)
        return 0;
    if (found != Py_None && !Py_IS_TYPE(found, (PyTypeObject *)state->layer_type)) {
        Py_DECREF(found);
        PyErr_SetString(PyExc_TypeError, "`open_networks` gives a Layer, or None");
        return 0;
    }
    if (!self->open_networks) { /* another thread was faster */
        Py_DECREF(found);
        return 1;
    }
    if (found == Py_None)
        Py_DECREF(found);
    else
        self->networks = (Layer *)found;
    Py_CLEAR(self->open_networks);
    return 1;
}

static PyObject *Match_network_fact(PyObject *object, void *closure)
{
    MatchView *self = (MatchView *)object;
    Value at;
    if (!layer_of(self) || !has_networks(self->searcher, object))
        return NULL;
    Layer *networks = self->searcher->networks;
    if (!networks || !networks->facts)
        Py_RETURN_NONE;
    int family = value_of(self->address, &at);
    Index *index = &networks->index;
    expect(index, 1);
    uint32_t record, slot = family == 4 ? find4(index, (uint32_t)at.lo, &record) : find6(index, at.hi, at.lo, &record);
    if (slot == EMPTY && is_alias(family, at.hi))
        slot = find4(index, (uint32_t)held_in(at.hi), &record);
    if (slot == EMPTY)
        Py_RETURN_NONE;
    return slot == DAMAGED ? damaged(object) : fact_of(networks->facts, (size_t)closure, record, NULL, 0, object);
}

enum { ADDRESS, IP, GEOLOCATION, FIRST, LAST, LAYER, PENDING, SOURCE, NETWORK };

/* `first`, `last` or `network` of the range around an address. */
static PyObject *range_text(int family, Value at, const Piece *piece, int which)
{
    char text[ADDRESS_TEXT + 4];
    if (which != NETWORK) {
        Value end = which == FIRST ? piece->first : piece->last;
        return PyUnicode_FromStringAndSize(text, write_address(text, family, end.hi, end.lo));
    }
    int length = network_around(family, at, piece), host = (family == 4 ? 32 : 128) - length;
    if (host)
        at = (Value){host > 64 ? (host < 128 ? at.hi & UINT64_MAX << (host - 64) : 0) : at.hi,
                     host < 64 ? at.lo & UINT64_MAX << host : 0};
    int written = write_address(text, family, at.hi, at.lo);
    text[written++] = '/';
    return PyUnicode_FromStringAndSize(text, written + write_decimal(text + written, (unsigned)length));
}

static PyObject *Match_own(PyObject *object, void *closure)
{
    MatchView *self = (MatchView *)object;
    Layer *layer = layer_of(self);
    if (!layer)
        return NULL;
    Places *places = layer->places;
    uint32_t slot = self->slot & ~OVERLAY;
    switch ((int)(size_t)closure) {
    case ADDRESS:
    case IP:
        return Py_NewRef(self->address);
    case GEOLOCATION: {
        PyObject *view = view_of(places, slot);
        return view || PyErr_Occurred() ? view : damaged(object);
    }
    case LAYER:
        return PyUnicode_InternFromString(self->slot & OVERLAY ? "custom" : "default");
    case PENDING:
        return PyBool_FromLong(places->pending && places->pending[slot]);
    case SOURCE: {
        PyObject *name = PyTuple_GetItem(places->sources, places->source ? places->source[slot] : 0);
        return name ? Py_NewRef(name) : (PyErr_Clear(), damaged(object));
    }
    default: {
        Value at;
        Piece piece;
        int family = value_of(self->address, &at);
        if (!family || !piece_of_both(self->searcher, family, at, &piece))
            return damaged(object);
        return range_text(family, at, &piece, (int)(size_t)closure);
    }
    }
}

/* The ends of the range around an address, and the length of the network around it there; None without an answer. */
static PyObject *Searcher_range(PyObject *object, PyObject *address)
{
    Value at;
    Piece piece;
    int family = value_of(address, &at);
    if (!family) {
        if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_UnicodeEncodeError))
            return NULL;
        PyErr_Clear();
        Py_RETURN_NONE;
    }
    if (!piece_of_both((Searcher *)object, family, at, &piece))
        return damaged(object);
    if (piece.slot == EMPTY)
        Py_RETURN_NONE;
    PyObject *first = range_text(family, at, &piece, FIRST), *last = first ? range_text(family, at, &piece, LAST) : NULL;
    if (!last) {
        Py_XDECREF(first);
        return NULL;
    }
    return Py_BuildValue("(NNi)", first, last, network_around(family, at, &piece));
}

/* A type of objects that stand for a Match: by the names of the locid and the fields in the order of `Places`, of the facts
 * of places and of those of networks in the order of `Facts`. */
static PyObject *module_match_type(PyObject *module, PyObject *arguments)
{
    PyObject *fields, *place_facts, *network_facts, *class;
    if (!PyArg_ParseTuple(arguments, "O!O!O!O!", &PyTuple_Type, &fields, &PyTuple_Type, &place_facts, &PyTuple_Type,
                          &network_facts, &PyType_Type, &class))
        return NULL;
    PyObject *own = Py_BuildValue("(sssssssss)", "address", "ip", "geolocation", "first", "last", "layer", "pending",
                                  "source", "network");
    if (!own)
        return NULL;
    const Getters getters[] = {{own, Match_own, 0},
                               {fields, Match_field, 0},
                               {place_facts, Match_place_fact, 0},
                               {network_facts, Match_network_fact, 0}};
    PyObject *type = type_of(module, "geolookup.index._native.MatchView", sizeof(MatchView), MatchView_dealloc, class,
                             getters, 4);
    Py_DECREF(own);
    return type;
}
