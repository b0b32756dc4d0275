/* The optional accelerator: addresses and whole columns to slots, and slots to places. reader.py is its oracle.
 *
 * Written to the limited API of CPython 3.11, so one build serves every later release. Single lookups hold the GIL
 * throughout; columns release it. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include <time.h>

#include "_answers.h"
#include "_columns.h"
#include "_layers.h"
#include "_network.h"
#include "_tree.h"
#include "_values.h"

/* ---- Searcher: its methods ---- */

static PyObject *Searcher_find(PyObject *self, PyObject *address)
{
    Py_ssize_t length;
    uint64_t hi = 0, lo = 0;
    const char *text = PyUnicode_AsUTF8AndSize(address, &length);
    if (!text) {
        if (!PyErr_ExceptionMatches(PyExc_UnicodeEncodeError))
            return NULL;
        PyErr_Clear();
        return PyLong_FromUnsignedLong(BAD);
    }
    Searcher *searcher = (Searcher *)self;
    int family = parse(text, length, &hi, &lo);
    uint32_t record, slot = family ? find(&searcher->base->index, &searcher->overlay->index, family, hi, lo, &record) : BAD;
    return slot == DAMAGED ? damaged(self) : PyLong_FromUnsignedLong(slot);
}

/* Whether this processor reads quads at once. */
static int is_wide;

/* What all columns have in common; `item_bytes` each, and `spare` more items than rows. */
static PyObject *locate_column(PyObject *self, Column *column, const Py_buffer *items, Py_ssize_t item_bytes,
                               Py_ssize_t spare, const Py_buffer *validity, const Py_buffer *out)
{
    Py_ssize_t offset = column->offset, length = column->length, bad = 0;
    int outcome = COLUMN_DAMAGED;
    if (offset >= 0 && length >= 0 && offset <= PY_SSIZE_T_MAX / 32 && length <= PY_SSIZE_T_MAX / 32 &&
        out->len / 4 >= length &&
        (length == 0 || (items->len / item_bytes - spare >= offset + length &&
                         (!validity->buf || validity->len >= (offset + length + 7) / 8)))) {
        column->items = items->buf;
        column->items_bytes = items->len;
        column->validity = validity->buf;
        Index *base = &((Searcher *)self)->base->index, *overlay = &((Searcher *)self)->overlay->index;
        expect(base, length);
        expect(overlay, length);
        base->batches++;
        overlay->batches++;
        Py_BEGIN_ALLOW_THREADS
        outcome = (is_wide ? locate_wide : locate_plain)(base, overlay, column, out->buf, &bad);
        Py_END_ALLOW_THREADS
        base->batches--;
        overlay->batches--;
    }
    if (outcome == FILE_DAMAGED)
        return damaged(self);
    if (outcome == COLUMN_DAMAGED) {
        PyErr_SetString(PyExc_ValueError, "the column's buffers do not fit its rows");
        return NULL;
    }
    return PyLong_FromSsize_t(bad);
}

static PyObject *Searcher_locate_strings(PyObject *self, PyObject *arguments, PyObject *keywords)
{
    static const char *names[] = {"data", "offsets", "validity", "offset", "length", "out", "large", NULL};
    Py_buffer data, offsets, validity, out;
    Column column = {0};
    int large = 0;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "z*y*z*nnw*|p", (char **)names, &data, &offsets, &validity,
                                     &column.offset, &column.length, &out, &large))
        return NULL;
    column.kind = large ? STRINGS64 : STRINGS32;
    column.data = data.buf ? data.buf : "";
    column.data_bytes = data.buf ? data.len : 0;
    PyObject *found = locate_column(self, &column, &offsets, large ? 8 : 4, 1, &validity, &out);
    PyBuffer_Release(&data);
    PyBuffer_Release(&offsets);
    PyBuffer_Release(&validity);
    PyBuffer_Release(&out);
    return found;
}

static PyObject *Searcher_locate_views(PyObject *self, PyObject *arguments, PyObject *keywords)
{
    static const char *names[] = {"views", "buffers", "validity", "offset", "length", "out", NULL};
    PyObject *given, *found = NULL;
    Py_buffer views, validity, out;
    Column column = {.kind = VIEWS};
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "y*O!z*nnw*", (char **)names, &views, &PyTuple_Type, &given,
                                     &validity, &column.offset, &column.length, &out))
        return NULL;
    Py_ssize_t count = PyTuple_Size(given), held = 0;
    Py_buffer *buffers = PyMem_Calloc(count ? count : 1, sizeof(Py_buffer));
    if (!buffers)
        PyErr_NoMemory();
    else
        while (held < count && PyObject_GetBuffer(PyTuple_GetItem(given, held), &buffers[held], PyBUF_SIMPLE) == 0)
            held++;
    if (buffers && held == count) {
        column.buffers = buffers;
        column.buffer_count = count;
        found = locate_column(self, &column, &views, 16, 0, &validity, &out);
    }
    while (held > 0)
        PyBuffer_Release(&buffers[--held]);
    PyMem_Free(buffers);
    PyBuffer_Release(&views);
    PyBuffer_Release(&validity);
    PyBuffer_Release(&out);
    return found;
}

static PyObject *locate_numbers(PyObject *self, PyObject *arguments, PyObject *keywords, Column column)
{
    static const char *names[] = {"values", "validity", "offset", "length", "out", NULL};
    Py_buffer values, validity, out;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "y*z*nnw*", (char **)names, &values, &validity,
                                     &column.offset, &column.length, &out))
        return NULL;
    PyObject *found = locate_column(self, &column, &values, column.kind == U32 ? 4 : 8, 0, &validity, &out);
    PyBuffer_Release(&values);
    PyBuffer_Release(&validity);
    PyBuffer_Release(&out);
    return found;
}

static PyObject *Searcher_locate_u32(PyObject *self, PyObject *arguments, PyObject *keywords)
{
    return locate_numbers(self, arguments, keywords, (Column){.kind = U32});
}

static PyObject *Searcher_locate_u64(PyObject *self, PyObject *arguments, PyObject *keywords)
{
    return locate_numbers(self, arguments, keywords, (Column){.kind = U64});
}

static PyObject *Searcher_locate_halves(PyObject *self, PyObject *arguments, PyObject *keywords)
{
    static const char *names[] = {"values", "families", "out", NULL};
    Py_buffer values, families, validity = {0}, out;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "y*y*w*", (char **)names, &values, &families, &out))
        return NULL;
    Column column = {.kind = HALVES, .data = families.buf, .data_bytes = families.len, .length = families.len};
    PyObject *found = locate_column(self, &column, &values, 16, 0, &validity, &out);
    PyBuffer_Release(&values);
    PyBuffer_Release(&families);
    PyBuffer_Release(&out);
    return found;
}

/* ---- Finder: one address to its answer ---- */

typedef struct {
    PyObject_HEAD
    PyObject *slow, *slow_match, *slow_network;
    PyObject *in_vrfs; /* the Finders of VRFs by their names: a dict, or NULL */
    Searcher *searcher;
    double look_at;
} Finder;

/* The clock of Python's time.monotonic, but coarse: read in a tenth of the time, and late by some milliseconds. */
static double now_s(void)
{
    struct timespec now;
#if defined(CLOCK_MONOTONIC_COARSE)
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
#elif defined(CLOCK_UPTIME_RAW_APPROX)
    clock_gettime(CLOCK_UPTIME_RAW_APPROX, &now);
#else
    clock_gettime(CLOCK_MONOTONIC, &now);
#endif
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* The family of an address that is text, 0 if the slow way must be asked. */
static inline int read_address(Finder *self, PyObject *address, Value *at)
{
    if (!PyUnicode_CheckExact(address) || !self->searcher || now_s() >= self->look_at)
        return 0;
    Py_ssize_t length;
    const char *text = PyUnicode_AsUTF8AndSize(address, &length);
    int family = 0;
    if (text)
        family = parse(text, length, &at->hi, &at->lo);
    else
        PyErr_Clear();
    return family;
}

/* Count a lookup of a place. */
static inline void expect_one(Searcher *searcher)
{
    expect(&searcher->base->index, 1);
    expect(&searcher->overlay->index, 1);
}

/* What is slow answers all but one address alone. */
static PyObject *ask_slowly(PyObject *slow, PyObject *const *arguments, Py_ssize_t count, PyObject *names)
{
    PyObject *given = PyTuple_New(count), *named = names ? PyDict_New() : NULL, *found = NULL;
    if (!given || (names && !named))
        goto done;
    for (Py_ssize_t i = 0; i < count; i++)
        PyTuple_SetItem(given, i, Py_NewRef(arguments[i]));
    for (Py_ssize_t i = 0; names && i < PyTuple_Size(names); i++)
        if (PyDict_SetItem(named, PyTuple_GetItem(names, i), arguments[count + i]) < 0)
            goto done;
    found = PyObject_Call(slow, given, named);
done:
    Py_XDECREF(given);
    Py_XDECREF(named);
    return found;
}

/* The Finder that answers for one address: this, or with `vrf` that of the VRF; NULL if what is slow must be asked. */
static Finder *finder_for(Finder *self, PyObject *const *arguments, Py_ssize_t count, PyObject *names)
{
    if (count != 1)
        return NULL;
    if (names) {
        if (PyTuple_Size(names) != 1 || PyUnicode_CompareWithASCIIString(PyTuple_GetItem(names, 0), "vrf"))
            return NULL;
        if (arguments[1] != Py_None) {
            PyObject *found = NULL;
            if (self->in_vrfs && PyUnicode_CheckExact(arguments[1]))
                found = PyDict_GetItemWithError(self->in_vrfs, arguments[1]);
            return found && Py_IS_TYPE(found, Py_TYPE((PyObject *)self)) ? (Finder *)Py_NewRef(found) : NULL;
        }
    }
    return (Finder *)Py_NewRef((PyObject *)self);
}

static PyObject *answer_lookup(Finder *self, PyObject *address)
{
    Value at = {0, 0};
    int family = read_address(self, address, &at);
    if (family) {
        expect_one(self->searcher);
        const Layer *base = self->searcher->base, *overlay = self->searcher->overlay;
        uint32_t record, slot = find(&base->index, &overlay->index, family, at.hi, at.lo, &record);
        if (slot == EMPTY)
            Py_RETURN_NONE;
        Places *places = (slot & OVERLAY ? overlay : base)->places;
        if (slot != DAMAGED && places) {
            PyObject *view = view_of(places, slot & ~OVERLAY);
            if (view || PyErr_Occurred())
                return view;
        }
    }
    return PyObject_CallFunctionObjArgs(self->slow, address, NULL);
}

static PyObject *Finder_lookup(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *names)
{
    Finder *self = (Finder *)object;
    if (count == 1 && !names)
        return answer_lookup(self, arguments[0]);
    Finder *finder = finder_for(self, arguments, count, names);
    if (!finder)
        return PyErr_Occurred() ? NULL : ask_slowly(self->slow, arguments, count, names);
    PyObject *found = answer_lookup(finder, arguments[0]);
    Py_DECREF((PyObject *)finder);
    return found;
}

static PyObject *answer_match(Finder *self, PyObject *address)
{
    Value at = {0, 0};
    int family = read_address(self, address, &at);
    if (family)
        expect_one(self->searcher);
    PyObject *match = family ? match_of(self->searcher, address, family, at) : NULL;
    if (match || PyErr_Occurred())
        return match;
    return PyObject_CallFunctionObjArgs(self->slow_match, address, NULL);
}

static PyObject *Finder_match(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *names)
{
    Finder *self = (Finder *)object;
    if (count == 1 && !names)
        return answer_match(self, arguments[0]);
    Finder *finder = finder_for(self, arguments, count, names);
    if (!finder)
        return PyErr_Occurred() ? NULL : ask_slowly(self->slow_match, arguments, count, names);
    PyObject *found = answer_match(finder, arguments[0]);
    Py_DECREF((PyObject *)finder);
    return found;
}

static PyObject *Finder_network(PyObject *object, PyObject *address)
{
    Finder *self = (Finder *)object;
    Value at = {0, 0};
    int family = read_address(self, address, &at);
    PyObject *network = NULL;
    if (family) {
        Searcher *searcher = (Searcher *)Py_NewRef((PyObject *)self->searcher); /* opening an index may replace it */
        network = network_of(searcher, object, address, family, at);
        Py_DECREF((PyObject *)searcher);
    }
    if (network)
        return network;
    PyErr_Clear(); /* an index that is gone, say: the slow way looks for another */
    return PyObject_CallFunctionObjArgs(self->slow_network, address, NULL);
}

static PyObject *Finder_use(PyObject *object, PyObject *searcher)
{
    Finder *self = (Finder *)object;
    State *state = PyType_GetModuleState(Py_TYPE(object));
    if (!state)
        return NULL;
    if (searcher != Py_None && !Py_IS_TYPE(searcher, (PyTypeObject *)state->searcher_type)) {
        PyErr_SetString(PyExc_TypeError, "a Searcher, or None");
        return NULL;
    }
    Searcher *before = self->searcher;
    self->searcher = searcher == Py_None ? NULL : (Searcher *)Py_NewRef(searcher);
    Py_XDECREF((PyObject *)before);
    Py_RETURN_NONE;
}

static PyObject *Finder_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    static const char *names[] = {"slow", "slow_match", "slow_network", "in_vrfs", NULL};
    PyObject *slow, *slow_match = Py_None, *slow_network = Py_None, *in_vrfs = NULL;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O|OOO!", (char **)names, &slow, &slow_match, &slow_network,
                                     &PyDict_Type, &in_vrfs))
        return NULL;
    Finder *self = (Finder *)PyType_GenericAlloc(type, 0);
    if (self) {
        self->slow = Py_NewRef(slow);
        self->slow_match = Py_NewRef(slow_match);
        self->slow_network = Py_NewRef(slow_network);
        self->in_vrfs = in_vrfs ? Py_NewRef(in_vrfs) : NULL;
    }
    return (PyObject *)self;
}

static int Finder_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(((Finder *)object)->slow);
    Py_VISIT(((Finder *)object)->slow_match);
    Py_VISIT(((Finder *)object)->slow_network);
    Py_VISIT(((Finder *)object)->in_vrfs);
    return 0;
}

/* Someone's destructor may still call the finder, so what is slow is replaced and never missing. */
static void let_go(PyObject **slow)
{
    PyObject *before = *slow;
    *slow = Py_NewRef(Py_None);
    Py_XDECREF(before);
}

static int Finder_clear(PyObject *object)
{
    Finder *self = (Finder *)object;
    Py_CLEAR(self->searcher);
    Py_CLEAR(self->in_vrfs);
    let_go(&self->slow);
    let_go(&self->slow_match);
    let_go(&self->slow_network);
    return 0;
}

static void Finder_dealloc(PyObject *object)
{
    Finder *self = (Finder *)object;
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    Py_CLEAR(self->searcher);
    Py_CLEAR(self->in_vrfs);
    Py_CLEAR(self->slow);
    Py_CLEAR(self->slow_match);
    Py_CLEAR(self->slow_network);
    PyObject_GC_Del(object);
    Py_DECREF(type);
}

/* ---- The module ---- */

#define KEYWORDS(function) (PyCFunction)(void (*)(void))(function), METH_VARARGS | METH_KEYWORDS

static PyType_Slot layer_slots[] = {
    {Py_tp_new, Layer_new},
    {Py_tp_dealloc, Layer_dealloc},
    {Py_tp_doc, "The search sections of one open index file, and its places."},
    {0, NULL},
};

static PyMethodDef searcher_methods[] = {
    {"find", Searcher_find, METH_O, "The slot of an address given as text."},
    {"range", Searcher_range, METH_O, "The ends of the range around an address, and the length of the network around it."},
    {"locate_strings", KEYWORDS(Searcher_locate_strings), "Slots for an Arrow string column."},
    {"locate_views", KEYWORDS(Searcher_locate_views), "Slots for an Arrow string view column."},
    {"locate_u32", KEYWORDS(Searcher_locate_u32), "Slots for IPv4 addresses as unsigned 32-bit integers."},
    {"locate_halves", KEYWORDS(Searcher_locate_halves), "Slots for addresses in two halves of 64 bits, with their families."},
    {"locate_u64", KEYWORDS(Searcher_locate_u64), "Slots for IPv4 addresses as 64-bit integers."},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot searcher_slots[] = {
    {Py_tp_new, Searcher_new},
    {Py_tp_dealloc, Searcher_dealloc},
    {Py_tp_methods, searcher_methods},
    {Py_tp_doc, "Both layers, searched together, the overlay first."},
    {0, NULL},
};

static PyMethodDef finder_methods[] = {
    {"lookup", (PyCFunction)(void (*)(void))Finder_lookup, METH_FASTCALL | METH_KEYWORDS, "The geolocation of an address, or None if no block covers it."},
    {"match", (PyCFunction)(void (*)(void))Finder_match, METH_FASTCALL | METH_KEYWORDS, "The answer for an address and its range, or None if no block covers it."},
    {"network", Finder_network, METH_O, "Who runs an address, or None if no source says it."},
    {"use", Finder_use, METH_O, "Answer from this Searcher from now on; with None, only `slow` answers."},
    {NULL, NULL, 0, NULL},
};
static PyMemberDef finder_members[] = {
    {"look_at", T_DOUBLE, offsetof(Finder, look_at), 0, "When what is slow is asked next whatever is known, by monotonic()."},
    {NULL, 0, 0, 0, NULL},
};
static PyType_Slot finder_slots[] = {
    {Py_tp_new, Finder_new},
    {Py_tp_dealloc, Finder_dealloc},
    {Py_tp_traverse, Finder_traverse},
    {Py_tp_clear, Finder_clear},
    {Py_tp_methods, finder_methods},
    {Py_tp_members, finder_members},
    {Py_tp_doc, "One address to its answer in one call; what is slow answers all that this cannot."},
    {0, NULL},
};

static PyType_Spec layer_spec = {"geolookup.index._native.Layer", sizeof(Layer), 0, IMMUTABLE, layer_slots};
static PyType_Spec searcher_spec = {"geolookup.index._native.Searcher", sizeof(Searcher), 0, IMMUTABLE, searcher_slots};
static PyType_Spec finder_spec = {"geolookup.index._native.Finder", sizeof(Finder), 0,
                                  IMMUTABLE | Py_TPFLAGS_HAVE_GC, finder_slots};

static int module_exec(PyObject *module)
{
    State *state = PyModule_GetState(module);
    is_wide = has_wide();
    PyObject *errors = PyImport_ImportModule("geolookup.model.errors");
    if (!errors)
        return -1;
    state->damaged_error = PyObject_GetAttrString(errors, "IndexDamagedError");
    Py_DECREF(errors);
    state->of_views = PyList_New(0);
    if (!state->damaged_error || !state->of_views)
        return -1;
    PyObject *finder_type = PyType_FromModuleAndSpec(module, &finder_spec, NULL);
    state->layer_type = PyType_FromModuleAndSpec(module, &layer_spec, NULL);
    state->searcher_type = PyType_FromModuleAndSpec(module, &searcher_spec, NULL);
    state->places_type = PyType_FromModuleAndSpec(module, &places_spec, NULL);
    state->facts_type = PyType_FromModuleAndSpec(module, &facts_spec, NULL);
    int failed = !finder_type || !state->layer_type || !state->searcher_type || !state->places_type ||
                 !state->facts_type || PyModule_AddObjectRef(module, "Facts", state->facts_type) < 0 ||
                 PyModule_AddObjectRef(module, "Finder", finder_type) < 0 ||
                 PyModule_AddObjectRef(module, "Layer", state->layer_type) < 0 ||
                 PyModule_AddObjectRef(module, "Searcher", state->searcher_type) < 0 ||
                 PyModule_AddObjectRef(module, "Places", state->places_type) < 0 ||
                 PyModule_AddIntConstant(module, "GROUP", GROUP) < 0;
    Py_XDECREF(finder_type);
    return failed ? -1 : 0;
}

static int module_traverse(PyObject *module, visitproc visit, void *arg)
{
    State *state = PyModule_GetState(module);
    Py_VISIT(state->layer_type);
    Py_VISIT(state->searcher_type);
    Py_VISIT(state->places_type);
    Py_VISIT(state->facts_type);
    Py_VISIT(state->damaged_error);
    Py_VISIT(state->of_views);
    for (int i = 0; i < KEYS; i++)
        Py_VISIT(state->keys[i].found);
    return 0;
}

static int module_clear(PyObject *module)
{
    State *state = PyModule_GetState(module);
    Py_CLEAR(state->layer_type);
    Py_CLEAR(state->searcher_type);
    Py_CLEAR(state->places_type);
    Py_CLEAR(state->facts_type);
    Py_CLEAR(state->damaged_error);
    for (int i = 0; i < KEYS; i++)
        Py_CLEAR(state->keys[i].found);
    return 0; /* a type may still look into `of_views` */
}

static void module_free(void *module)
{
    State *state = PyModule_GetState(module);
    if (state) {
        module_clear(module);
        Py_CLEAR(state->of_views);
    }
}

static PyObject *parsed(int family, uint64_t hi, uint64_t lo)
{
    if (!family)
        Py_RETURN_NONE;
    return Py_BuildValue("iKK", family, (unsigned long long)hi, (unsigned long long)lo);
}

static PyObject *module_parse(PyObject *module, PyObject *address)
{
    Py_ssize_t length;
    uint64_t hi = 0, lo = 0;
    const char *text = PyUnicode_AsUTF8AndSize(address, &length);
    int family = text ? parse(text, length, &hi, &lo) : 0;
    if (!text && !PyErr_ExceptionMatches(PyExc_UnicodeEncodeError))
        return NULL;
    PyErr_Clear();
    return parsed(family, hi, lo);
}

static PyObject *module_parse_in(PyObject *module, PyObject *arguments)
{
    Py_buffer data;
    Py_ssize_t begin, end;
    if (!PyArg_ParseTuple(arguments, "y*nn", &data, &begin, &end))
        return NULL;
    PyObject *found = NULL;
    if (0 <= begin && begin <= end && end <= data.len) {
        uint64_t hi = 0, lo = 0;
        const char *text = (const char *)data.buf + begin;
        int family = is_wide ? parse_wide(text, end - begin, data.len - begin, &hi, &lo)
                             : parse(text, end - begin, &hi, &lo);
        found = parsed(family, hi, lo);
    } else {
        PyErr_SetString(PyExc_ValueError, "the text is not inside the buffer");
    }
    PyBuffer_Release(&data);
    return found;
}

static PyObject *module_go_wide(PyObject *module, PyObject *wanted)
{
    int is_wanted = PyObject_IsTrue(wanted);
    if (is_wanted < 0)
        return NULL;
    is_wide = is_wanted && has_wide();
    return PyBool_FromLong(is_wide);
}

/* One item of `fields`: (the base's values, the overlay's, where the rows' go, bytes a value). False with an error set. */
static int read_field(PyObject *item, Py_ssize_t rows, const uint32_t *limits, Py_buffer *buffers, Field *field)
{
    Py_ssize_t bytes;
    if (!PyTuple_Check(item) || !PyArg_ParseTuple(item, "y*y*w*n", &buffers[0], &buffers[1], &buffers[2], &bytes)) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "a field is a tuple");
        return 0;
    }
    const Py_ssize_t items[] = {limits[0], limits[1], rows};
    int fits = bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
    for (int i = 0; i < 3; i++)
        fits = fits && buffers[i].len / bytes >= items[i] && (!items[i] || (uintptr_t)buffers[i].buf % (size_t)bytes == 0);
    if (!fits) {
        for (int i = 0; i < 3; i++)
            PyBuffer_Release(&buffers[i]);
        PyErr_SetString(PyExc_ValueError, "a field's buffers do not fit its rows or locations");
        return 0;
    }
    *field = (Field){buffers[0].buf, buffers[1].buf, buffers[2].buf, bytes};
    return 1;
}

static PyObject *module_take(PyObject *module, PyObject *arguments)
{
    Py_buffer slots, validity;
    PyObject *given, *taken = NULL;
    Py_ssize_t locations[2], held = 0;
    if (!PyArg_ParseTuple(arguments, "y*nnO!w*", &slots, &locations[0], &locations[1], &PyTuple_Type, &given, &validity))
        return NULL;
    Py_ssize_t rows = slots.len / 4, count = PyTuple_Size(given);
    Py_buffer *buffers = PyMem_Calloc(count ? count : 1, 3 * sizeof(Py_buffer));
    Field *fields = PyMem_Calloc(count ? count : 1, sizeof(Field));
    if (!buffers || !fields) {
        PyErr_NoMemory();
        goto done;
    }
    if (locations[0] < 0 || locations[0] > 0x7FFFFFFF || locations[1] < 0 || locations[1] > 0x7FFFFFFF ||
        slots.len % 4 || (uintptr_t)slots.buf % 4 || validity.len < (rows + 7) / 8) {
        PyErr_SetString(PyExc_ValueError, "the slots, the locations and the validity do not fit each other");
        goto done;
    }
    const uint32_t limits[] = {(uint32_t)locations[0], (uint32_t)locations[1]};
    while (held < count && read_field(PyTuple_GetItem(given, held), rows, limits, &buffers[3 * held], &fields[held]))
        held++;
    if (held < count)
        goto done;
    Counts counts = {0};
    int sound;
    Py_BEGIN_ALLOW_THREADS
    sound = answer(slots.buf, rows, limits, fields, count, validity.buf, &counts);
    Py_END_ALLOW_THREADS
    if (sound)
        taken = Py_BuildValue("nnn", counts.empty, counts.bad, counts.absent);
    else
        PyErr_SetString(PyExc_ValueError, "a slot is of no location");
done:
    for (Py_ssize_t i = 0; i < 3 * held; i++)
        PyBuffer_Release(&buffers[i]);
    PyMem_Free(buffers);
    PyMem_Free(fields);
    PyBuffer_Release(&slots);
    PyBuffer_Release(&validity);
    return taken;
}

static PyObject *module_is_utf8(PyObject *module, PyObject *given)
{
    Py_buffer data;
    if (PyObject_GetBuffer(given, &data, PyBUF_SIMPLE) < 0)
        return NULL;
    int found = is_utf8(data.buf ? data.buf : "", data.len);
    PyBuffer_Release(&data);
    return PyBool_FromLong(found);
}

static PyMethodDef module_functions[] = {
    {"parse", module_parse, METH_O, "(family, upper 64 bits, lower 64 bits) of strict address text, or None."},
    {"parse_in", module_parse_in, METH_VARARGS, "The same of text inside a buffer, read as a column's text is."},
    {"go_wide", module_go_wide, METH_O, "Whether to use what not all processors have; returns whether that is so."},
    {"is_utf8", module_is_utf8, METH_O, "Whether bytes are UTF-8, as strictly as Python decodes it."},
    {"view_type", module_view_type, METH_VARARGS, "A type of objects that look into `Places`, by the names of its fields."},
    {"match_type", module_match_type, METH_VARARGS, "A type of objects that stand for a Match, by the names of fields and facts."},
    {"network_type", module_network_type, METH_VARARGS, "A type of objects that stand for a Network, by the names of facts."},
    {"part", module_part, METH_VARARGS, "One part of records by its number, or None."},
    {"tree", module_tree, METH_VARARGS, "Lay the search tree of a MaxMind DB, or count its nodes."},
    {"unread", module_unread, METH_VARARGS, "The first part from a number on that is damaged."},
    {"parts", module_parts, METH_VARARGS, "All parts of a record by their keys, or None."},
    {"take", module_take, METH_VARARGS, "Write the values that stand in slots, for all fields at once."},
    {NULL, NULL, 0, NULL},
};
static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, module_exec}, {0, NULL}};
static struct PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "geolookup.index._native",
    .m_doc = "Strict address text, search in mapped sections, whole columns.",
    .m_size = sizeof(State),
    .m_methods = module_functions,
    .m_slots = module_slots,
    .m_traverse = module_traverse,
    .m_clear = module_clear,
    .m_free = module_free,
};

PyMODINIT_FUNC PyInit__native(void)
{
    return PyModuleDef_Init(&module_definition);
}
