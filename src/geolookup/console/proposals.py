"""Edits before they are made: whose answer would change, and whether what they were made against is still so."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from geolookup.errors import EditError
from geolookup.history.impact import Impact, impact
from geolookup.history.preview import with_custom_layer
from geolookup.history.within import PlaceChange, changes_within
from geolookup.state.directory import StateDirectory
from geolookup.state.edits.editor import Editor
from geolookup.state.edits.layer import Laid
from geolookup.state.edits.linter import Finding, lint
from geolookup.state.edits.outbox.payload import described

#: Makes an edit; returns the locid that it is about, and what it did in words.
Does: TypeAlias = Callable[[Editor], tuple[int, str]]

#: Segments that are looked at before a page is answered; more are looked at afterwards.
AT_ONCE = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What an edit would do.

    ``changes`` are place by place, None if there is too much to look at; then ``by_country`` counts it, unless that is
    still to be asked for. ``findings`` are what the linter would newly find.
    """

    changes: list[PlaceChange] | None
    by_country: Impact | None
    findings: list[Finding]

    @property
    def totals(self) -> tuple[int, int]:
        """IPv4 and IPv6 addresses altogether."""
        if self.changes is not None:
            return sum(change.ipv4 for change in self.changes), sum(change.ipv6 for change in self.changes)
        return (0, 0) if self.by_country is None else self.by_country.totals()


class OvertakenError(EditError):
    """What a form showed is not so any more: somebody changed it meanwhile. Nothing was changed."""


def version(laid: Laid) -> str:
    """What a form carries of the geolocation that it shows: another text after any change of it."""
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


def preview(directory: StateDirectory, editor: Editor, does: Does, *, whole: bool = False) -> Preview:
    """What an edit would do, which is forgotten again. ``whole`` counts also what takes a walk over the index.

    :raises EditError: if it cannot be made
    """
    with editor.rehearsal():
        before = {laid.place.locid: laid for laid in editor.custom()}
        does(editor)
        after = {laid.place.locid: laid for laid in editor.custom()}
    touched = [
        side[locid].place
        for side, other in ((before, after), (after, before))
        for locid in side
        if locid not in other or other[locid].place != side[locid].place
    ]
    blocks = {block for place in touched for block in place.ipblocks}
    with with_custom_layer(directory, after.values()) as (old, new):
        changes = changes_within(old, new, blocks, most=AT_ONCE)
        by_country = impact(old, new) if changes is None and whole else None
    known = set(lint([laid.place for laid in before.values()]))
    found = [finding for finding in lint([laid.place for laid in after.values()]) if finding not in known]
    return Preview(changes=changes, by_country=by_country, findings=found)
