"""Forms that a browser sent, read strictly."""

from typing import Any, TypeAlias

from litestar import Request
from litestar.datastructures import UploadFile

from geolookup.console.entry.session import Session
from geolookup.errors import RequestRefusedError
from geolookup.web.application import SAFE

AnyRequest: TypeAlias = Request[Any, Any, Any]

#: The field that every form has: see `Session.form_token`.
TOKEN = "form-token"  # noqa: S105  # the name of a field
#: Marks a handler of `POST` that changes nothing, so that a console which only reads has it too.
READS = {"reads": True}


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
        """The text of a field as it was sent, blanks around it too; empty if the form has no such field."""
        self.text(name)
        return str(self._fields.get(name, [""])[0])

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
        """What a person typed, by the name of the input."""
        return {name: values[0] for name, values in self._fields.items() if isinstance(values[0], str)}

    def file(self, name: str) -> UploadFile | None:
        """A file that was chosen, None if none was."""
        found = [each for each in self._fields.get(name, ()) if isinstance(each, UploadFile) and each.filename]
        return found[0] if len(found) == 1 else None


def query(request: AnyRequest, name: str) -> str:
    """A parameter of the address, without blanks around it: empty if it is missing, the last if there are several."""
    found = request.query_params.getall(name, [])
    return str(found[-1]).strip() if found else ""


def typed(text: str) -> str:
    """What an input sends back that was given this text and not touched: no browser keeps all characters in one."""
    return text.replace("\r", "").replace("\n", "").replace("\0", "\ufffd")


async def require_own_form(request: AnyRequest, session: Session, *, read_only: bool) -> None:
    """Before every handler: of a write, read the form, and refuse it unless a page of this console had it.

    :raises RequestRefusedError: if it is not ours, or the console only reads
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
    if not session.is_form_of_ours(form.text(TOKEN)):
        raise RequestRefusedError("the form is not one of this console", problem="cross-site-request")
    request.state.form = form
