"""The custom layer as the pages show it, kept until it changes: laying thousands of edits takes a second."""

import threading
from dataclasses import dataclass

from geolookup.state.editor import Editor
from geolookup.state.edits.layer import Laid
from geolookup.state.edits.linter import Finding, lint
from geolookup.state.edits.outbox.row import PENDING_STATES, OutboxRow
from geolookup.state.publishing.directory import StateDirectory


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomLayer:
    """All custom geolocations of one moment, newest last, with what the linter finds about them.

    ``names`` are those of sites by locid; ``edits`` all of the outbox, ``pending`` those on their way.
    """

    laid: list[Laid]
    findings: list[Finding]
    names: dict[int, str]
    pending: list[OutboxRow]
    edits: list[OutboxRow]


class Kept:
    """Keeps the layer of one state. What is edited is never taken from here: an edit reads what it is made against."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: tuple[object, CustomLayer] | None = None

    def layer(self, directory: StateDirectory, editor: Editor) -> CustomLayer:
        """The layer as it is now."""
        with self._lock:
            key = (directory.require_current().sequence, directory.edits.stamp())
            if self._found is None or self._found[0] != key:
                with editor.rehearsal():
                    laid, gone, sites, edits = editor.custom(), editor.gone(), editor.sites(), editor.outbox()
                    waits = editor.has_service()
                found = CustomLayer(
                    laid=laid,
                    findings=lint([each.place for each in laid], gone=gone),
                    names={locid: name for name, locid in sites.items()},
                    pending=[row for row in edits if waits and row.state in PENDING_STATES],
                    edits=edits,
                )
                self._found = (key, found)
            return self._found[1]
