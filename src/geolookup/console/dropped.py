"""The file that somebody chose or dropped: a log or a list, which may be compressed."""

import contextlib
from collections.abc import Iterator
from typing import Any

from geolookup.columns.counts.counts import Counts, count
from geolookup.columns.counts.files import batches_of
from geolookup.console.console import Console
from geolookup.console.forms import AnyRequest, Form
from geolookup.errors import GeoLookupError
from geolookup.files.content import content_of

#: Bytes of a file that a browser may send: it is kept in a temporary file while it is read.
MAX_FILE_BYTES = 4 << 30


class NoFileError(GeoLookupError):
    """The form came without a file."""


@contextlib.contextmanager
def dropped(request: AnyRequest) -> Iterator[tuple[str, Any]]:
    """The name of the form's file, and its content as a stream.

    :raises NoFileError: if none was chosen
    :raises GeoLookupError: if it is of a kind that is not read
    """
    form: Form = request.state.form
    sent = form.file("file")
    if sent is None:
        raise NoFileError("Choose a file first.")
    with contextlib.closing(sent.file):
        yield sent.filename, content_of(sent.filename, sent.file)


def dropped_name(request: AnyRequest) -> str:
    """The name of the form's file; empty if none was chosen."""
    form: Form = request.state.form
    sent = form.file("file")
    return "" if sent is None else sent.filename


def count_dropped(request: AnyRequest, console: Console) -> Counts:
    """Where the addresses of the form's file are.

    :raises GeoLookupError: if there is none, or it cannot be read
    """
    with dropped(request) as (name, stream):
        return count(console.geo(), ((name, batch) for batch in batches_of(name, stream)))
