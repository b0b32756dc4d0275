"""An edit before it is made: whose answer it would change, and what the linter would newly find."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from geolookup.history.impact import Impact, impact
from geolookup.history.preview import with_custom_layer
from geolookup.history.within import PlaceChange, changes_within
from geolookup.state.editor import Editor
from geolookup.state.edits.linter import Finding, lint
from geolookup.state.publishing.directory import StateDirectory


@dataclass(frozen=True, slots=True, kw_only=True)
class EditPreview:
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


def preview_edit(
    directory: StateDirectory, editor: Editor, edit: Callable[[Editor], Any], *, most: int, whole: bool
) -> EditPreview:
    """What ``edit`` would do to the answers, which is forgotten again: it takes no lock, and needs no right to write.

    Up to ``most`` segments are looked at place by place; what has more is counted by country if ``whole``, which is a
    walk over the index.

    :raises NoStateError: if nothing has been published
    :raises EditError: if it cannot be made
    """
    with editor.rehearsal():
        before = {laid.place.locid: laid for laid in editor.custom()}
        edit(editor)
        after = {laid.place.locid: laid for laid in editor.custom()}
    touched = [
        side[locid].place
        for side, other in ((before, after), (after, before))
        for locid in side
        if locid not in other or other[locid].place != side[locid].place
    ]
    blocks = {block for place in touched for block in place.ipblocks}
    with with_custom_layer(directory, after.values()) as (old, new):
        changes = changes_within(old, new, blocks, most=most)
        by_country = impact(old, new) if changes is None and whole else None
    found = lint([laid.place for laid in after.values()])
    known = set(lint([laid.place for laid in before.values()])) if found else set()
    found = [finding for finding in found if finding not in known]
    return EditPreview(changes=changes, by_country=by_country, findings=found)
