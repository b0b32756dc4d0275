/* Single facts of the records of one open index file, read where they stand: no record is decoded for one of them.
 *
 * Nothing that the file says is believed before it is used as an index. All of it needs the GIL. */

#pragma once

#include "_places.h"
#include "_search.h"
#include "_state.h"

/* The types of values in a MaxMind DB (specification 2.0). Records have no pointers. */
enum { MM_POINTER = 1, MM_TEXT, MM_DOUBLE, MM_BYTES, MM_UINT16, MM_UINT32, MM_MAP, MM_INT32, MM_UINT64, MM_UINT128,
       MM_ARRAY, MM_BOOLEAN = 14, MM_FLOAT };

/* A member of a map, or an item of an array if `key` is NULL. */
typedef struct {
    const char *key;
    Py_ssize_t length;
    uint32_t item;
} Step;

/* `most` is -1 for text, 0 for true and false, else the largest number. */
typedef struct {
    const void *numbers; /* of each record's part; NULL if no record has its key */
    int number_bytes;
    Py_ssize_t most;
    Step *steps; /* from the part to the fact */
    Py_ssize_t step_count;
    /* What it follows from where the record does not say it: the place's field of this number (see `place_value`), and
     * the fact by that field's text; NULL if from nothing. Unless `always`, only in a record without the whole part. */
    Py_ssize_t field;
    PyObject *by_text;
    int always;
} Fact;

typedef struct {
    PyObject_HEAD
    PyObject *given; /* has the keys of the steps */
    Py_buffer *buffers;
    Py_ssize_t held;
    Fact *facts;
    Py_ssize_t count;
    const int32_t *offsets;
    const unsigned char *bytes;
    int64_t parts, part_bytes; /* how many there are, and all their bytes */
    uint32_t records;
} Facts;

/* ---- Reading a value ---- */

/* The type and size of the value at a place, which then is that of its content; false if it was cut short. */
static int read_head(const unsigned char **at, const unsigned char *end, int *kind, uint32_t *size)
{
    static const uint32_t beyond[] = {29, 285, 65821};
    const unsigned char *p = *at;
    if (p >= end)
        return 0;
    *kind = *p >> 5;
    *size = *p++ & 31;
    if (!*kind) {
        if (p >= end || !*p) /* a map in the form of later types: one byte longer, and never written so */
            return 0;
        *kind = *p++ + 7;
    }
    if (*kind == MM_POINTER)
        return 0;
    if (*size >= 29) {
        int more = (int)*size - 28;
        if (end - p < more)
            return 0;
        uint32_t value = 0;
        for (int i = 0; i < more; i++)
            value = value << 8 | *p++;
        *size = beyond[more - 1] + value;
    }
    *at = p;
    return 1;
}

/* Go past some values; false if one was cut short. */
static int skip(const unsigned char **at, const unsigned char *end, uint64_t left)
{
    for (; left > 0; left--) {
        int kind;
        uint32_t size;
        if (!read_head(at, end, &kind, &size))
            return 0;
        if (kind == MM_MAP || kind == MM_ARRAY) {
            left += kind == MM_MAP ? 2 * (uint64_t)size : size;
        } else if (kind != MM_BOOLEAN) {
            if ((uint64_t)(end - *at) < size)
                return 0;
            *at += size;
        }
    }
    return 1;
}

/* Go from a value into it. 0 if it has nothing there, below 0 if it is damaged. */
static int enter(const unsigned char **at, const unsigned char *end, const Step *step)
{
    int kind;
    uint32_t size;
    if (!read_head(at, end, &kind, &size))
        return -1;
    if (!step->key)
        return kind != MM_ARRAY || step->item >= size ? 0 : skip(at, end, step->item) ? 1 : -1;
    if (kind != MM_MAP)
        return 0;
    for (; size > 0; size--) {
        uint32_t length;
        if (!read_head(at, end, &kind, &length) || kind != MM_TEXT || (uint64_t)(end - *at) < length)
            return -1;
        const unsigned char *key = *at;
        *at += length;
        if (length == step->length && !memcmp(key, step->key, length))
            return 1;
        if (!skip(at, end, 1))
            return -1;
    }
    return 0;
}

/* The whole number of some bytes, or -1 if it is below zero or too large for anything. */
static int64_t whole_number(const unsigned char *at, uint32_t size, int kind)
{
    uint64_t value = 0;
    for (uint32_t i = 0; i < size; i++) {
        if (value >> 55)
            return -1;
        value = value << 8 | at[i];
    }
    return kind == MM_INT32 && size == 4 && value >> 31 ? -1 : (int64_t)value;
}

/* The fact in a part; NULL without an error set if it is not there, or has another type, or says nothing. */
static PyObject *read_fact(const Fact *fact, const unsigned char *at, const unsigned char *end, PyObject *owner)
{
    static const unsigned char widths[MM_FLOAT + 1] = {
        [MM_UINT16] = 2, [MM_UINT32] = 4, [MM_INT32] = 4, [MM_UINT64] = 8, [MM_UINT128] = 16};
    int kind;
    uint32_t size;
    for (Py_ssize_t i = 0; i < fact->step_count; i++) {
        int found = enter(&at, end, &fact->steps[i]);
        if (found <= 0)
            return found ? damaged(owner) : NULL;
    }
    if (!read_head(&at, end, &kind, &size))
        return damaged(owner);
    if (fact->most == 0)
        return kind != MM_BOOLEAN ? NULL : size > 1 ? damaged(owner) : PyBool_FromLong(size);
    if (kind == MM_MAP || kind == MM_ARRAY || kind == MM_BOOLEAN)
        return NULL;
    if ((uint64_t)(end - at) < size)
        return damaged(owner);
    if (fact->most < 0) {
        if (kind != MM_TEXT || !size)
            return NULL;
        PyObject *text = PyUnicode_DecodeUTF8((const char *)at, size, "strict");
        if (text || !PyErr_ExceptionMatches(PyExc_UnicodeDecodeError))
            return text;
        PyErr_Clear();
        return damaged(owner);
    }
    if (kind > MM_FLOAT || !widths[kind])
        return NULL;
    if (size > widths[kind])
        return damaged(owner);
    int64_t value = whole_number(at, size, kind);
    return value < 0 || value > fact->most ? NULL : PyLong_FromLongLong(value);
}

/* A fact by its place among those of the file; None if nobody says it. Without `places` it follows from nothing. */
static PyObject *fact_of(const Facts *self, size_t which, uint32_t record, Places *places, uint32_t slot,
                         PyObject *owner)
{
    if (which >= (size_t)self->count)
        Py_RETURN_NONE;
    const Fact *fact = &self->facts[which];
    uint32_t number = 0;
    if (fact->numbers) {
        if (record >= self->records)
            return damaged(owner);
        number = fact->number_bytes == 1   ? ((const uint8_t *)fact->numbers)[record]
                 : fact->number_bytes == 2 ? ((const uint16_t *)fact->numbers)[record]
                                           : ((const uint32_t *)fact->numbers)[record];
    }
    if (number) {
        if (number >= self->parts)
            return damaged(owner);
        int64_t begin = self->offsets[number], end = self->offsets[number + 1];
        if (begin < 0 || begin > end || end > self->part_bytes)
            return damaged(owner);
        PyObject *found = read_fact(fact, self->bytes + begin, self->bytes + end, owner);
        if (found || PyErr_Occurred())
            return found;
    }
    if (!fact->by_text || !places || (number && !fact->always))
        Py_RETURN_NONE;
    PyObject *text = place_value(places, slot, (size_t)fact->field, owner);
    PyObject *found = text ? PyObject_GetItem(fact->by_text, text) : NULL;
    Py_XDECREF(text);
    return found;
}

/* Whoever asks for a match mostly reads a field or fact of it next. */
static inline void ask_for_facts(const Facts *self, uint32_t record)
{
    for (Py_ssize_t i = 0; i < self->count; i++)
        if (self->facts[i].numbers)
            PREFETCH((const char *)self->facts[i].numbers + (size_t)record * (size_t)self->facts[i].number_bytes);
}

/* ---- Facts, to Python ---- */

static int hold_steps(Fact *fact, PyObject *steps)
{
    fact->step_count = PyTuple_Size(steps);
    fact->steps = PyMem_Calloc(fact->step_count + 1, sizeof(Step));
    if (!fact->steps) {
        PyErr_NoMemory();
        return 0;
    }
    for (Py_ssize_t i = 0; i < fact->step_count; i++) {
        PyObject *step = PyTuple_GetItem(steps, i);
        if (PyUnicode_Check(step)) {
            if (!(fact->steps[i].key = PyUnicode_AsUTF8AndSize(step, &fact->steps[i].length)))
                return 0;
        } else {
            unsigned long item = PyLong_AsUnsignedLong(step);
            if (PyErr_Occurred())
                return 0;
            fact->steps[i].item = item > UINT32_MAX ? UINT32_MAX : (uint32_t)item;
        }
    }
    return 1;
}

static int hold_fact(Facts *self, Fact *fact, PyObject *item)
{
    PyObject *numbers, *steps, *by_text;
    Py_ssize_t bytes;
    if (!PyTuple_Check(item) || !PyArg_ParseTuple(item, "OnO!nnOp", &numbers, &bytes, &PyTuple_Type, &steps,
                                                  &fact->most, &fact->field, &by_text, &fact->always)) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "a fact is a tuple");
        return 0;
    }
    if (!hold_steps(fact, steps))
        return 0;
    if (numbers != Py_None) {
        Py_buffer *held = &self->buffers[self->held];
        if (PyObject_GetBuffer(numbers, held, PyBUF_SIMPLE) < 0)
            return 0;
        self->held++;
        if ((bytes != 1 && bytes != 2 && bytes != 4) || held->len != (Py_ssize_t)self->records * bytes ||
            (uintptr_t)held->buf % (size_t)bytes) {
            PyErr_SetString(PyExc_ValueError, "the numbers of a fact do not fit the records, or are not aligned");
            return 0;
        }
        fact->numbers = held->buf ? held->buf : "";
        fact->number_bytes = (int)bytes;
    }
    fact->by_text = by_text == Py_None ? NULL : Py_NewRef(by_text);
    return 1;
}

static PyObject *Facts_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    static const char *names[] = {"records", "facts", "offsets", "parts", NULL};
    PyObject *given, *offsets, *parts;
    Py_ssize_t records;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "nO!OO", (char **)names, &records, &PyTuple_Type, &given,
                                     &offsets, &parts))
        return NULL;
    if (records < 0 || records >= (Py_ssize_t)0x7FFFFFFC) {
        PyErr_SetString(PyExc_ValueError, "less than 2**31 - 4 records");
        return NULL;
    }
    Facts *self = (Facts *)PyType_GenericAlloc(type, 0);
    if (!self)
        return NULL;
    self->given = Py_NewRef(given);
    self->records = (uint32_t)records;
    Py_ssize_t count = PyTuple_Size(given);
    self->buffers = PyMem_Calloc(count + 2, sizeof(Py_buffer));
    self->facts = PyMem_Calloc(count + 1, sizeof(Fact));
    if (!self->buffers || !self->facts) {
        PyErr_NoMemory();
        goto failed;
    }
    for (PyObject *each = offsets; each; each = each == offsets ? parts : NULL) {
        if (PyObject_GetBuffer(each, &self->buffers[self->held], PyBUF_SIMPLE) < 0)
            goto failed;
        self->held++;
    }
    Py_buffer *held = self->buffers;
    if (held[0].len % 4 || held[0].len / 4 - 1 > (Py_ssize_t)UINT32_MAX || (uintptr_t)held[0].buf % 4) {
        PyErr_SetString(PyExc_ValueError, "the offsets of the parts do not fit, or are not aligned");
        goto failed;
    }
    self->offsets = held[0].buf;
    self->parts = held[0].len / 4 - 1;
    self->bytes = held[1].buf;
    self->part_bytes = held[1].len;
    for (; self->count < count; self->count++)
        if (!hold_fact(self, &self->facts[self->count], PyTuple_GetItem(given, self->count))) {
            self->count++; /* it may hold something already */
            goto failed;
        }
    return (PyObject *)self;
failed:
    Py_DECREF(self);
    return NULL;
}

static void Facts_dealloc(PyObject *object)
{
    Facts *self = (Facts *)object;
    PyTypeObject *type = Py_TYPE(object);
    for (Py_ssize_t i = 0; i < self->count; i++) {
        PyMem_Free(self->facts[i].steps);
        Py_XDECREF(self->facts[i].by_text);
    }
    PyMem_Free(self->facts);
    while (self->held > 0)
        PyBuffer_Release(&self->buffers[--self->held]);
    PyMem_Free(self->buffers);
    Py_XDECREF(self->given);
    PyObject_Free(object);
    Py_DECREF(type);
}

static PyType_Slot facts_slots[] = {
    {Py_tp_new, Facts_new},
    {Py_tp_dealloc, Facts_dealloc},
    {Py_tp_doc, "Single facts of the records of one open index file, read where they stand."},
    {0, NULL},
};
static PyType_Spec facts_spec = {"geolookup.index._native.Facts", sizeof(Facts), 0, IMMUTABLE, facts_slots};
