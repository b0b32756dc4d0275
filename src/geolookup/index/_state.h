/* What the module keeps for all of its types. */

#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Keys of maps in records, which are few, as Python has them: each stands where its hash says, until another takes it. */
enum { KEYS = 256, LONGEST_KEY = 39 };

typedef struct {
    PyObject *found;
    unsigned char size, octets[LONGEST_KEY];
} Key;

typedef struct {
    PyObject *layer_type, *searcher_type, *places_type, *facts_type, *damaged_error;
    /* What the types of `view_type` and `match_type` look into. No attribute of theirs holds it: attributes can be deleted. Each type
     * holds the module, so this outlives them. */
    PyObject *of_views;
    Key keys[KEYS];
} State;

/* Their attributes can neither be set nor deleted. */
#define IMMUTABLE (Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE)

/* Raise that the file which `self`, of a type of this module, looks into is damaged. */
static PyObject *damaged(PyObject *self)
{
    State *state = PyType_GetModuleState(Py_TYPE(self));
    if (state)
        PyErr_SetString(state->damaged_error, "a table or slot leads outside its section: the index file is damaged");
    return NULL;
}
