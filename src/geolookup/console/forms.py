"""Input from a browser: parameters of the address, forms and files, read strictly, and tables sorted by parameters."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar
from urllib.parse import urlencode

from litestar import Request
from litestar.datastructures import UploadFile

from geolookup.columns.batches import Batch, batches_of
from geolookup.columns.counts import Counts, count
from geolookup.console.entry import Session
from geolookup.files.opened import content_of
from geolookup.files.streams import Limits
from geolookup.lookup.engine import GeoLookup
from geolookup.model.addresses import parse, to_text
from geolookup.model.errors import DataFileError, GeoLookupError, RequestRefusedError
from geolookup.web.application import SAFE

AnyRequest: TypeAlias = Request[Any, Any, Any]

#: The field that every form has: see `Session.form_token`.
TOKEN = "form-token"  # noqa: S105  # the name of a field
#: Marks a handler of `POST` that changes nothing, so that a console which only reads has it too.
READS = {"reads": True}
#: Bytes of a file that a browser may send: it is kept in a temporary file while it is read.
MAX_FILE_BYTES = 4 << 30
#: Bytes that such a file may expand to, each time it was compressed.
MAX_EXPANDED_BYTES = 16 << 30
#: Bytes of a sheet of sites, which is read as a whole.
MAX_SHEET_BYTES = 32 << 20
_Item = TypeVar("_Item")
_PAGE_ROWS = 50
#: Addresses of a file that a page lists, and that may become those of a new site: they fit into a link.
_MOST_LISTED = 200
#: Bytes of a file that is read as if it had been pasted.
_LIST_BYTES = 64 << 10


class Form:
    """The fields of a form, by name."""

    def __init__(self, fields: dict[str, list[Any]]) -> None:
        self._fields = fields

    def text(self, name: str, default: str = "") -> str:
        """The text of a field, without blanks around it; ``default`` if the form has no such field.

        :raises RequestRefusedError: if it is given twice, or is a file
        """
        given = self._fields.get(name, [default])
        if len(given) != 1 or not isinstance(given[0], str):
            raise RequestRefusedError(f"the field {name} must be given once, as text", problem="bad-request")
        return given[0].strip()

    def as_sent(self, name: str) -> str:
        """The unstripped text of a field; empty if the form has no such field."""
        self.text(name)
        return str(self._fields.get(name, [""])[0])

    def all(self, name: str) -> list[str]:
        """The texts of all fields of a name, as they were sent."""
        return [each for each in self._fields.get(name, []) if isinstance(each, str)]

    def number(self, name: str) -> int:
        """A whole number.

        :raises RequestRefusedError: if it is missing, or is none
        """
        text = self.text(name)
        if not (text.removeprefix("-").isdecimal() and text.isascii() and len(text) <= 20):
            raise RequestRefusedError(
                f"the field {name} must be a whole number, not {text!r:.40}", problem="bad-request"
            )
        return int(text)

    def typed(self) -> dict[str, str]:
        """The typed texts by the names of their inputs."""
        return {name: values[0] for name, values in self._fields.items() if isinstance(values[0], str)}

    def file(self, name: str) -> UploadFile | None:
        """A file that was chosen, None if none was."""
        found = self.files(name)
        return found[0] if len(found) == 1 else None

    def files(self, name: str) -> list[UploadFile]:
        """The files that were chosen."""
        return [each for each in self._fields.get(name, ()) if isinstance(each, UploadFile) and each.filename]


def query(request: AnyRequest, name: str) -> str:
    """A parameter of the address, without blanks around it: empty if it is missing, the last if there are several."""
    found = request.query_params.getall(name, [])
    return str(found[-1]).strip() if found else ""


def typed(text: str) -> str:
    """The text that an untouched input sends back: no browser keeps every character of it."""
    return text.replace("\r", "").replace("\n", "").replace("\0", "\ufffd")


class StaleFormError(GeoLookupError):
    """The form is of a console that has ended: its page was opened before this one began."""


async def require_own_form(request: AnyRequest, session: Session, *, read_only: bool, ends: threading.Event) -> None:
    """Run before every handler: read the form of a write, and refuse it unless a page of this console had it.

    ``ends`` is set once the console ends: no work on a file goes on after that, nor after its client left.

    :raises RequestRefusedError: if it is not ours, or the console only reads
    :raises StaleFormError: if it is of a console that has ended
    """
    if request.method in SAFE:
        return
    if read_only and not request.route_handler.opt.get("reads"):
        raise RequestRefusedError("this console was started with --read-only", problem="insufficient-scope")
    sent = await request.form()
    fields: dict[str, list[Any]] = {}
    for name, value in sent.multi_items():
        fields.setdefault(name, []).append(value)
    form = Form(fields)
    token, request.state.form = form.text(TOKEN), form
    if not session.is_form_of_ours(token):
        # The answer has our token: it is for a browser that says that a page of this address sent the form.
        if token and request.headers.get("sec-fetch-site") == "same-origin":
            raise StaleFormError("Send it once more")
        raise RequestRefusedError("the form is not one of this console", problem="cross-site-request")
    if any(isinstance(value, UploadFile) for _, value in sent.multi_items()):
        left = threading.Event()
        request.state.is_over = lambda: left.is_set() or ends.is_set()
        request.state.leaving = asyncio.create_task(_note_leaving(request, left))  # a task that no one holds may vanish


async def _note_leaving(request: AnyRequest, left: threading.Event) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    left.set()


class UnwantedError(Exception):
    """No page is wanted any more: the client left, or the console ends."""


def require_wanted(request: AnyRequest) -> None:
    """Check that the page of a request with a file is still wanted.

    :raises UnwantedError: if it is not
    """
    if request.state.is_over():
        raise UnwantedError


def while_wanted(request: AnyRequest, items: Iterable[_Item]) -> Iterator[_Item]:
    """The items, as long as the page is wanted.

    :raises UnwantedError: once it is not
    """
    for item in items:
        require_wanted(request)
        yield item


class NoFileError(GeoLookupError):
    """The form came without a file."""


@contextlib.contextmanager
def dropped(request: AnyRequest) -> Iterator[tuple[str, Any]]:
    """The name of the form's file, and its content as a stream.

    :raises NoFileError: if none was chosen
    :raises GeoLookupError: if it is of a kind that is not read, or expands too far
    :raises UnwantedError: while it is read, once the page is not wanted any more
    """
    form: Form = request.state.form
    sent = form.file("file")
    if sent is None:
        raise NoFileError("Choose a file first.")
    with contextlib.closing(sent.file):
        limits = Limits(expanded_bytes=MAX_EXPANDED_BYTES, advice=": `geolookup top` reads files of any length")
        yield sent.filename, content_of(sent.filename, sent.file, limits, lambda: require_wanted(request))


def read_dropped(request: AnyRequest) -> list[tuple[str, bytes]]:
    """The names of the form's files, each with all of it, as it was sent.

    :raises NoFileError: if none was chosen
    """
    form: Form = request.state.form
    found = []
    for sent in form.files("file"):
        with contextlib.closing(sent.file):
            found.append((sent.filename, sent.file.read()))
    if not found:
        raise NoFileError("Choose a file first.")
    return found


def dropped_name(request: AnyRequest) -> str:
    """The name of the form's file; empty if none was chosen."""
    form: Form = request.state.form
    sent = form.file("file")
    return "" if sent is None else sent.filename


def count_dropped(request: AnyRequest, geo: GeoLookup) -> tuple[Counts, list[str], str]:
    """Count the addresses of the form's file, a log or a list that may be compressed, by their places.

    :returns: the counts; each address once in its order, none if there are too many to list; and a short text without
        columns as a whole
    :raises GeoLookupError: if there is no file, or it cannot be read
    """
    seen: dict[str, None] = {}
    whole = ""

    def noted(batch: Batch) -> Batch:
        for token in batch.found if len(seen) <= _MOST_LISTED else ():
            with contextlib.suppress(GeoLookupError, UnicodeDecodeError):  # malformed ones are counted
                text = token.decode()
                seen[to_text(*parse((batch.reread and batch.reread(text)) or text))] = None
            if len(seen) > _MOST_LISTED:
                break
        if batch.doubt is None and b"\0" in head:
            raise DataFileError(f"{name} is not text: choose a log, a list, or a table")
        nonlocal whole
        if batch.doubt is None and len(head) < _LIST_BYTES:
            whole = head.decode(errors="replace")
        return batch

    with dropped(request) as (name, stream):
        head = b"" if not stream.seekable() else stream.read(_LIST_BYTES)
        if head:
            stream.seek(0)
        found = count(geo, ((name, noted(batch)) for batch in while_wanted(request, batches_of(name, stream))))
    return found, list(seen) if len(seen) <= _MOST_LISTED else [], whole


class Table:
    """One page of some rows, sorted and paged on the server: it needs no scripts, and can be linked.

    ``columns`` are the sortable ones, each with its key; of ``falling`` ones the largest come first. ``sort`` and
    ``page`` come from the address; invalid ones are ignored.
    """

    def __init__(
        self,
        request: AnyRequest,
        rows: Sequence[Any],
        columns: Mapping[str, Callable[[Any], Any]],
        *,
        default: str,
        falling: Collection[str] = (),
    ) -> None:
        self._falling = falling
        self._path = request.url.path
        self._given = {name: query(request, name) for name in request.query_params if name not in ("page", "told")}
        sort = self._given.get("sort", "")
        self.column = sort.removeprefix("-") if sort.removeprefix("-") in columns else default
        #: True if it is sorted the other way round than at the first click.
        self.turned = sort == f"-{self.column}"
        self.reverse = self.turned != (self.column in falling)
        if self.column in columns:
            rows = sorted(rows, key=columns[self.column], reverse=self.reverse)
        self.count = len(rows)
        self.pages = max(1, -(-len(rows) // _PAGE_ROWS))
        page = query(request, "page")
        self.page = min(self.pages, max(1, int(page))) if page.isascii() and page.isdecimal() and len(page) < 9 else 1
        begin = (self.page - 1) * _PAGE_ROWS
        self.rows = rows[begin : begin + _PAGE_ROWS]
        self.first, self.last = min(begin + 1, self.count), begin + len(self.rows)

    def sorted_by(self, column: str) -> str:
        """The address behind the heading of a column: sorted by it, or the other way round."""
        other_way = column == self.column and not self.turned
        return self._with(sort=f"-{column}" if other_way else column)

    def at(self, page: int) -> str:
        """The address of another page."""
        return self._with(page=str(page))

    def order(self, column: str) -> str:
        """The order of a column, for screen readers."""
        return "none" if column != self.column else "descending" if self.reverse else "ascending"

    def _with(self, **changes: str) -> str:
        found = {name: value for name, value in {**self._given, **changes}.items() if value}
        return f"{self._path}?{urlencode(found)}" if found else self._path
