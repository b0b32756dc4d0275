/* The places of one layer, and the objects that answer for them: a field's value is made when it is asked for.
 *
 * An object has the number of its place and a reference to the layer's sections, so they stay mapped for as long as it
 * is kept. Nothing that the file says is believed before it is used as an index. All of it needs the GIL. */

#pragma once

#include "_search.h"
#include "_state.h"
#include "_text.h"

/* Texts that were asked for a short while ago, by their numbers: whoever reads countries reads few. */
#define KEPT_TEXTS 4096

/* A section of texts' numbers or of degrees; NULL if the file is older than the field. */
typedef struct {
    const void *at;
    int is_text;
} Section;

typedef struct {
    int32_t number; /* 0: none; the text of that number is empty */
    PyObject *text;
} KeptText;

typedef struct {
    PyObject_HEAD
    PyTypeObject *view;
    PyObject *empty;
    Py_buffer *buffers;
    Py_ssize_t held;
    const int64_t *locids;
    Section *fields;
    Py_ssize_t field_count;
    const uint8_t *pending, *source; /* or NULL, where all are 0 */
    PyObject *sources;               /* the names that `source` numbers */
    const int32_t *offsets;
    const char *bytes;
    int64_t texts, text_bytes; /* how many there are, and all their bytes */
    uint32_t count;
    /* A bit a place: whether its texts and source were found to be sound, so that reading them later cannot fail. */
    unsigned char *sound;
    KeptText *kept;
} Places;

/* What stands for a Geolocation; `places` is NULL in one that was not made here. */
typedef struct {
    PyObject_HEAD
    Places *places;
    uint32_t slot;
} View;

static void View_dealloc(PyObject *object);

/* ---- Places ---- */

/* The bytes of a text, or false if its number or its ends lead outside. */
static inline int text_at(const Places *self, int32_t number, const char **text, int64_t *length)
{
    *length = 0;
    if (number == 0)
        return 1;
    if (number < 0 || number >= self->texts)
        return 0;
    int64_t begin = self->offsets[number], end = self->offsets[number + 1];
    if (begin < 0 || begin > end || end > self->text_bytes)
        return 0;
    *text = self->bytes + begin;
    *length = end - begin;
    return 1;
}

static int is_sound(Places *self, uint32_t slot)
{
    unsigned char *bits = &self->sound[slot >> 3], bit = (unsigned char)(1 << (slot & 7));
    if (*bits & bit)
        return 1;
    for (Py_ssize_t i = 0; i < self->field_count; i++) {
        const Section *field = &self->fields[i];
        const char *text = NULL;
        int64_t length;
        if (field->is_text && field->at &&
            (!text_at(self, ((const int32_t *)field->at)[slot], &text, &length) || !is_utf8(text, length)))
            return 0;
    }
    if (PyTuple_Size(self->sources) <= (self->source ? self->source[slot] : 0))
        return 0;
    *bits |= bit;
    return 1;
}

/* Whoever asks for a place mostly reads its fields next. */
static inline void ask_for_fields(const Places *self, uint32_t slot)
{
    for (Py_ssize_t i = 0; i < self->field_count; i++) {
        const Section *field = &self->fields[i];
        if (field->at)
            PREFETCH((const char *)field->at + (size_t)slot * (field->is_text ? 4 : 8));
    }
}

/* The object for a place below `count`; NULL, without an error set, if its texts are damaged, or it has no source. */
static PyObject *view_of(Places *self, uint32_t slot)
{
    if (!is_sound(self, slot))
        return NULL;
    ask_for_fields(self, slot);
    View *view = (View *)PyType_GenericAlloc(self->view, 0);
    if (view) {
        view->places = (Places *)Py_NewRef((PyObject *)self);
        view->slot = slot;
    }
    return (PyObject *)view;
}

/* A section of `items` items of `bytes` bytes each, or of any number of them if `items` is below zero. */
static const void *hold(Places *self, PyObject *buffer, Py_ssize_t items, Py_ssize_t bytes)
{
    Py_buffer *held = &self->buffers[self->held];
    if (PyObject_GetBuffer(buffer, held, PyBUF_SIMPLE) < 0)
        return NULL;
    self->held++;
    if (held->len % bytes == 0 && (items < 0 || held->len / bytes == items) && (uintptr_t)held->buf % bytes == 0)
        return held->buf ? held->buf : "";
    PyErr_SetString(PyExc_ValueError, "the sections do not fit each other, or are not aligned");
    return NULL;
}

static int hold_fields(Places *self, PyObject *given)
{
    for (Py_ssize_t i = 0; i < self->field_count; i++) {
        PyObject *item = PyTuple_GetItem(given, i), *buffer;
        Section *field = &self->fields[i];
        if (!PyTuple_Check(item) || !PyArg_ParseTuple(item, "Op", &buffer, &field->is_text)) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_TypeError, "a field is a tuple");
            return 0;
        }
        if (buffer != Py_None && !(field->at = hold(self, buffer, self->count, field->is_text ? 4 : 8)))
            return 0;
    }
    return 1;
}

static PyObject *Places_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    static const char *names[] = {"view", "count", "locids", "fields", "offsets", "texts", "pending", "source",
                                  "sources", NULL};
    PyObject *view, *locids, *fields, *offsets, *bytes, *pending = Py_None, *source = Py_None, *sources = NULL;
    Py_ssize_t count;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O!nOO!OO|OOO!", (char **)names, &PyType_Type, &view, &count,
                                     &locids, &PyTuple_Type, &fields, &offsets, &bytes, &pending, &source,
                                     &PyTuple_Type, &sources))
        return NULL;
    if (count < 0 || count >= (Py_ssize_t)0x7FFFFFFC || PyType_GetSlot((PyTypeObject *)view, Py_tp_dealloc) != (void *)View_dealloc) {
        PyErr_SetString(PyExc_ValueError, "less than 2**31 - 4 places, and a type of `view_type`");
        return NULL;
    }
    Places *self = (Places *)PyType_GenericAlloc(type, 0);
    if (!self)
        return NULL;
    self->view = (PyTypeObject *)Py_NewRef(view);
    self->count = (uint32_t)count;
    self->field_count = PyTuple_Size(fields);
    self->sources = sources ? Py_NewRef(sources) : Py_BuildValue("(s)", "");
    self->buffers = PyMem_Calloc(self->field_count + 5, sizeof(Py_buffer));
    self->fields = PyMem_Calloc(self->field_count + 1, sizeof(Section));
    self->sound = PyMem_Calloc(count / 8 + 1, 1);
    self->kept = PyMem_Calloc(KEPT_TEXTS, sizeof(KeptText));
    self->empty = PyUnicode_FromStringAndSize("", 0);
    if (!self->buffers || !self->fields || !self->sound || !self->kept || !self->empty || !self->sources) {
        if (!PyErr_Occurred())
            PyErr_NoMemory();
    } else if ((self->locids = hold(self, locids, count, 8)) && hold_fields(self, fields) &&
               (pending == Py_None || (self->pending = hold(self, pending, count, 1))) &&
               (source == Py_None || (self->source = hold(self, source, count, 1))) &&
               (self->offsets = hold(self, offsets, -1, 4))) {
        self->texts = self->buffers[self->held - 1].len / 4 - 1;
        self->bytes = hold(self, bytes, -1, 1);
        if (self->bytes) {
            self->text_bytes = self->buffers[self->held - 1].len;
            return (PyObject *)self;
        }
    }
    Py_DECREF(self);
    return NULL;
}

static void Places_dealloc(PyObject *object)
{
    Places *self = (Places *)object;
    PyTypeObject *type = Py_TYPE(object);
    for (int i = 0; self->kept && i < KEPT_TEXTS; i++)
        Py_XDECREF(self->kept[i].text);
    PyMem_Free(self->kept);
    PyMem_Free(self->sound);
    PyMem_Free(self->fields);
    while (self->held > 0)
        PyBuffer_Release(&self->buffers[--self->held]);
    PyMem_Free(self->buffers);
    Py_XDECREF(self->empty);
    Py_XDECREF(self->sources);
    Py_XDECREF((PyObject *)self->view);
    PyObject_Free(object);
    Py_DECREF(type);
}

static Py_ssize_t Places_length(PyObject *self)
{
    return ((Places *)self)->count;
}

static PyObject *Places_get(PyObject *object, PyObject *key)
{
    Places *self = (Places *)object;
    size_t slot = PyLong_AsSize_t(key);
    if (slot == (size_t)-1 && PyErr_Occurred())
        return NULL;
    PyObject *view = slot < self->count ? view_of(self, (uint32_t)slot) : NULL;
    if (!view && !PyErr_Occurred())
        PyErr_SetObject(PyExc_KeyError, key);
    return view;
}

/* A text by its number; `owner` is of a type of this module, for the error. */
static PyObject *text_of(Places *self, int32_t number, PyObject *owner)
{
    KeptText *kept = &self->kept[(uint32_t)number % KEPT_TEXTS];
    if (number == 0)
        return Py_NewRef(self->empty);
    if (kept->number == number)
        return Py_NewRef(kept->text);
    const char *bytes = NULL;
    int64_t length;
    PyObject *text = text_at(self, number, &bytes, &length) ? PyUnicode_DecodeUTF8(bytes, length, "strict") : NULL;
    if (!text) {
        if (!PyErr_Occurred() || PyErr_ExceptionMatches(PyExc_UnicodeDecodeError)) {
            PyErr_Clear();
            return damaged(owner); /* its texts were sound when it was made: somebody has written into the file */
        }
        return NULL;
    }
    PyObject *before = kept->text;
    *kept = (KeptText){number, Py_NewRef(text)};
    Py_XDECREF(before);
    return text;
}

/* The locid of a place for 0, and else a field by its place in the table of fields, from 1. */
static PyObject *place_value(Places *self, uint32_t slot, size_t number, PyObject *owner)
{
    if (number > (size_t)self->field_count) {
        PyErr_SetString(PyExc_TypeError, "there is no place with such a field");
        return NULL;
    }
    if (number == 0)
        return PyLong_FromLongLong(self->locids[slot]);
    const Section *field = &self->fields[number - 1];
    if (field->is_text)
        return text_of(self, field->at ? ((const int32_t *)field->at)[slot] : 0, owner);
    double degrees = field->at ? ((const double *)field->at)[slot] : Py_NAN;
    if (degrees != degrees) /* nothing is known */
        Py_RETURN_NONE;
    return PyFloat_FromDouble(degrees);
}

/* ---- Views ---- */

static PyObject *View_get(PyObject *object, void *closure)
{
    View *self = (View *)object;
    if (self->places)
        return place_value(self->places, self->slot, (size_t)closure, object);
    PyErr_SetString(PyExc_TypeError, "this object stands for no place");
    return NULL;
}

static void View_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    Py_XDECREF((PyObject *)((View *)object)->places);
    PyObject_Free(object);
    Py_DECREF(type);
}

static void free_getters(PyObject *capsule)
{
    PyMem_Free(PyCapsule_GetPointer(capsule, NULL));
}

static PyObject *View_get_class(PyObject *Py_UNUSED(object), void *closure)
{
    return Py_NewRef((PyObject *)closure);
}

/* Getters of a type: these names, one after the other, are asked of `get` with closures from `first` on. */
typedef struct {
    PyObject *names; /* a tuple */
    getter get;
    size_t first;
} Getters;

/* A type whose objects say that they are of another class. It is not immutable, since its methods are given to it later,
 * in Python. */
static PyObject *type_of(PyObject *module, const char *name, size_t bytes_each, destructor dealloc, PyObject *class,
                         const Getters *groups, int group_count)
{
    State *state = PyModule_GetState(module);
    /* The type looks into this memory for as long as it lives: getters, a last one that is empty, and their names. */
    Py_ssize_t count = 0, length;
    for (int i = 0; i < group_count; i++)
        count += PyTuple_Size(groups[i].names);
    Py_ssize_t bytes = (count + 2) * (Py_ssize_t)sizeof(PyGetSetDef);
    for (int i = 0; i < group_count; i++)
        for (Py_ssize_t k = 0; k < PyTuple_Size(groups[i].names); k++) {
            if (!PyUnicode_AsUTF8AndSize(PyTuple_GetItem(groups[i].names, k), &length))
                return NULL;
            bytes += length + 1;
        }
    PyGetSetDef *getters = PyMem_Calloc(bytes, 1), *next = getters;
    if (!getters)
        return PyErr_NoMemory();
    PyObject *memory = PyCapsule_New(getters, NULL, free_getters);
    if (!memory) {
        PyMem_Free(getters);
        return NULL;
    }
    if (PyList_Append(state->of_views, memory) < 0 || PyList_Append(state->of_views, class) < 0) {
        Py_DECREF(memory);
        return NULL;
    }
    Py_DECREF(memory); /* the list has it */
    char *at = (char *)&getters[count + 2];
    for (int i = 0; i < group_count; i++)
        for (Py_ssize_t k = 0; k < PyTuple_Size(groups[i].names); k++) {
            const char *given = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(groups[i].names, k), &length);
            memcpy(at, given, length);
            *next++ = (PyGetSetDef){.name = at, .get = groups[i].get, .closure = (void *)(groups[i].first + (size_t)k)};
            at += length + 1;
        }
    *next = (PyGetSetDef){.name = "__class__", .get = View_get_class, .closure = class};
    PyType_Slot slots[] = {{Py_tp_dealloc, dealloc}, {Py_tp_getset, getters}, {0, NULL}};
    PyType_Spec spec = {name, (int)bytes_each, 0, Py_TPFLAGS_DEFAULT, slots};
    return PyType_FromModuleAndSpec(module, &spec, NULL);
}

/* A type of views with these names: of the locid, and of the fields in the order of `Places`. */
static PyObject *module_view_type(PyObject *module, PyObject *arguments)
{
    PyObject *names, *class;
    if (!PyArg_ParseTuple(arguments, "O!O!", &PyTuple_Type, &names, &PyType_Type, &class))
        return NULL;
    const Getters getters[] = {{names, View_get, 0}};
    return type_of(module, "geolookup.index._native.GeolocationView", sizeof(View), View_dealloc, class, getters, 1);
}

static PyType_Slot places_slots[] = {
    {Py_tp_new, Places_new},
    {Py_tp_dealloc, Places_dealloc},
    {Py_mp_length, Places_length},
    {Py_mp_subscript, Places_get},
    {Py_tp_doc, "The places of one open index file, each as an object that looks there for its fields."},
    {0, NULL},
};
static PyType_Spec places_spec = {"geolookup.index._native.Places", sizeof(Places), 0, IMMUTABLE, places_slots};
