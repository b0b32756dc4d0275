"""Edits of forms: what they do, and whether what they were made against is still so."""

import hashlib
import json
from collections.abc import Callable
from typing import Any, TypeAlias

from geolookup.model.errors import EditError
from geolookup.state.editor import Editor
from geolookup.state.edits.layer import Laid
from geolookup.state.edits.outbox.payload import described

#: Makes an edit; returns the locid that it is about, and what it did in words.
Does: TypeAlias = Callable[[Editor], tuple[int, str]]


class OvertakenError(EditError):
    """The geolocation that a form showed was changed by others meanwhile. Nothing was saved."""


def version(laid: Laid) -> str:
    """The form's mark of the geolocation that it shows: another text after any change of it."""
    edits = [(row.id, str(row.state)) for row in laid.edits]
    return digest_of([laid.place.locid, described(laid.place), edits])


def digest_of(value: Any) -> str:
    """A short text that is another one for another value of JSON."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:24]


def make(editor: Editor, does: Does, *, unchanged: Callable[[], None]) -> tuple[int, str]:
    """Make an edit, unless its form was overtaken: ``unchanged`` is asked while nobody else can edit.

    :raises OvertakenError: if it says so
    :raises EditError: if it cannot be made
    """
    with editor.transaction():
        unchanged()
        return does(editor)
