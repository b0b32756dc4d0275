"""Decisions about edits of the outbox, as forms: retry, edit, drop, adopt, named as the commands."""

from geolookup import words
from geolookup.console import proposals
from geolookup.console.editing import Edit, Values, field_texts, require_fitting
from geolookup.console.forms import AnyRequest, query, typed
from geolookup.console.proposals import Does
from geolookup.errors import EditError
from geolookup.model.countries import in_capitals
from geolookup.model.fields import DEGREES, UNKNOWN
from geolookup.model.types import range_ends
from geolookup.sites.site import block_text
from geolookup.state.editor import Editor
from geolookup.state.edits.outbox.journal import is_half_done
from geolookup.state.edits.outbox.operations import Create, SettingFields, TakingBlock
from geolookup.state.edits.outbox.row import PERSON_STATES, OutboxRow, State


class Decision(Edit):
    """A decision about one edit."""

    #: What the link to it says.
    link: str

    def __init__(self, row: OutboxRow) -> None:
        self.row = row

    @classmethod
    def fits(cls, row: OutboxRow) -> bool:
        """True if it can be made about this edit."""
        raise NotImplementedError

    @property
    def back(self) -> str:
        """See `Edit`."""
        return f"/outbox/{self.row.id}"

    @property
    def place(self) -> str:
        """See `Edit`."""
        return f"{self.row.describe()} ({self.row.state})"

    def seen(self, editor: Editor) -> str:
        """See `Edit`."""
        row = editor.edit(self.row.id)
        return proposals.digest_of([row.id, str(row.state), row.attempts, row.payload, row.journal, row.problem])

    def now(self) -> dict[str, str]:
        """See `Edit`."""
        fields = field_texts(self.row.edit.fields) if isinstance(self.row.edit, SettingFields) else {}
        return {"edit": self.row.describe(), "state": str(self.row.state), **fields}

    def begin(self, request: AnyRequest) -> Values:
        """See `Edit`."""
        return {name: query(request, name) for name in self.names()}

    def after(self, locid: int) -> str:  # noqa: ARG002
        """See `Edit`."""
        return f"/outbox/{self.row.id}"


class _Retry(Decision):
    button, link = "Queue it again", "Retry: queue it again"
    hint = "If it was held for a conflict, the next push overwrites the service's version with mine."

    @classmethod
    def fits(cls, row: OutboxRow) -> bool:
        return row.state in PERSON_STATES

    def heading(self, values: Values) -> str:  # noqa: ARG002
        return f"Retry edit {self.row.id}"

    def does(self, values: Values) -> Does:  # noqa: ARG002
        def retry(editor: Editor) -> tuple[int, str]:
            row = editor.retry(self.row.id)
            return row.locid, words.decided(row)

        return retry


class _Amend(Decision):
    button, link = "Save, and queue it again", "Edit: change what it says"

    def __init__(self, row: OutboxRow) -> None:
        super().__init__(row)
        self.has_fields = isinstance(row.edit, SettingFields)
        self.block_label = "Block" if isinstance(row.edit, TakingBlock) else ""

    @classmethod
    def fits(cls, row: OutboxRow) -> bool:
        waits = row.state in (State.QUEUED, *PERSON_STATES)
        return waits and isinstance(row.edit, SettingFields | TakingBlock)

    def heading(self, values: Values) -> str:  # noqa: ARG002
        return f"Edit edit {self.row.id}"

    def begin(self, request: AnyRequest) -> Values:  # noqa: ARG002
        fields = field_texts(self.row.edit.fields) if isinstance(self.row.edit, SettingFields) else {}
        block = self.row.edit.takes if isinstance(self.row.edit, TakingBlock) else None
        return {**fields, **({} if block is None else {"block": block_text(block)})}

    def does(self, values: Values) -> Does:
        edit = self.row.edit
        fields: dict[str, str] = {}
        if isinstance(edit, SettingFields):
            shown = field_texts(edit.fields)
            fields = {name: values[name].strip() for name in shown if values[name] != typed(shown[name])}
            if "country" in fields:
                fields["country"] = in_capitals(fields["country"])
        block = range_ends(values["block"]) if self.block_label else None

        def amend(editor: Editor) -> tuple[int, str]:
            if not fields and block is None:
                raise EditError("give a field to change")
            row = editor.amend(self.row.id, fields=fields, block=block)
            if fields.keys() & {"country", *DEGREES}:
                require_fitting({**UNKNOWN, **row.payload["fields"]})
            return row.locid, words.decided(row)

        return amend


class _Drop(Decision):
    button, risky, link = "Drop it", True, "Drop: give it up"
    hint = "Dropping a create also drops the later edits of that geolocation."

    @classmethod
    def fits(cls, row: OutboxRow) -> bool:
        return row.state in (State.QUEUED, *PERSON_STATES)

    def heading(self, values: Values) -> str:  # noqa: ARG002
        return f"Drop edit {self.row.id}"

    def does(self, values: Values) -> Does:  # noqa: ARG002
        def drop(editor: Editor) -> tuple[int, str]:
            rows = editor.drop(self.row.id)
            return rows[0].locid, "; ".join(words.dropped(row, half_done=is_half_done(row.journal)) for row in rows)

        return drop


class _Adopt(Decision):
    button, locid_label, link = "Adopt it", "The service's geolocation", "Adopt: say what it became"
    hint = "Say which of the service's geolocations the held create became."

    @classmethod
    def fits(cls, row: OutboxRow) -> bool:
        return row.state in PERSON_STATES and isinstance(row.edit, Create)

    def heading(self, values: Values) -> str:  # noqa: ARG002
        return f"Adopt edit {self.row.id}"

    def does(self, values: Values) -> Does:
        try:
            locid = int(values["locid"])
        except ValueError as error:
            raise EditError(f"{values['locid']!r:.40} is not a locid: it is a whole number below zero") from error

        def adopt(editor: Editor) -> tuple[int, str]:
            row = editor.adopt(self.row.id, locid)
            return row.locid, words.decided(row)

        return adopt


#: The decisions, by the last part of their address, which is the command's name.
CHOICES: dict[str, type[Decision]] = {"retry": _Retry, "edit": _Amend, "drop": _Drop, "adopt": _Adopt}
