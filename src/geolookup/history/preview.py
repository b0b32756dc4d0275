"""Previews: answers that an edit, a file of sites or a pull would change. Nothing is published, nothing is edited."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from geolookup.history.impact import Impact, PlaceChange, changes_within, compiled, impact
from geolookup.http.transport import Transport
from geolookup.index.compare import LayerPair
from geolookup.index.reader import IndexReader
from geolookup.model.linter import Finding, lint
from geolookup.model.reports import Progress, unwatched
from geolookup.settings.table import Settings
from geolookup.sources.definition import Definition
from geolookup.state.base.candidate import Candidate
from geolookup.state.base.marks import Begun
from geolookup.state.editor import Editor
from geolookup.state.edits.layer import Laid
from geolookup.state.generations.cache import Cache
from geolookup.state.publishing.directory import StateDirectory
from geolookup.state.publishing.run import running
from geolookup.sync.pull.context import PullReport
from geolookup.sync.pull.pull import pull_locked


@contextlib.contextmanager
def with_custom_layer(directory: StateDirectory, layer: Iterable[Laid]) -> Iterator[tuple[LayerPair, LayerPair]]:
    """The served layers, and the same with another custom layer.

    :raises NoStateError: if nothing has been published
    """
    published = directory.open()
    try:
        with compiled(layer, published.current.generation) as overlay:
            yield (published.base, published.overlay), (published.base, overlay)
    finally:
        published.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class EditPreview:
    """The effect of an edit.

    ``changes`` are place by place, None if there are too many; then ``by_country`` counts them, if that was asked for.
    ``findings`` are the linter's new ones. ``names`` are those of the sites before and after it, by their number.
    """

    changes: list[PlaceChange] | None
    by_country: Impact | None
    findings: list[Finding]
    names: dict[int, str]

    @property
    def counted(self) -> bool:
        """True if it is known how many addresses change."""
        return self.changes is not None or self.by_country is not None

    @property
    def totals(self) -> tuple[int, int]:
        """IPv4 and IPv6 addresses altogether."""
        if self.changes is not None:
            return sum(change.ipv4 for change in self.changes), sum(change.ipv6 for change in self.changes)
        return (0, 0) if self.by_country is None else self.by_country.totals()


def preview_edit(
    directory: StateDirectory, editor: Editor, edit: Callable[[Editor], Any], *, most: int, whole: bool
) -> EditPreview:
    """The effect of ``edit`` on the answers. It is made in a rehearsal: without a lock, and without the right to write.

    Up to ``most`` segments are looked at place by place; what has more is counted by country if ``whole``, which is a
    walk over the index.

    :raises NoStateError: if nothing has been published
    :raises EditError: if it cannot be made
    """
    with editor.rehearsal():
        before, names = {laid.place.locid: laid for laid in editor.custom()}, editor.site_names()
        edit(editor)
        after = {laid.place.locid: laid for laid in editor.custom()}
        names |= editor.site_names()
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
    return EditPreview(changes=changes, by_country=by_country, findings=found, names=names)


#: Called with the layers before and after.
Compare = Callable[[LayerPair, LayerPair], None]


def preview_pull(
    directory: StateDirectory,
    settings: Settings,
    compare: Compare,
    *,
    given: Sequence[Definition] = (),
    url_moved: bool = False,
    progress: Progress = unwatched,
) -> PullReport:
    """Do what `pull` does without publishing: ``compare`` is given the layers that would be served.

    It is not called if the service has the served list, nor if nothing is published yet. A list that the guard holds is
    kept, as by a pull.

    :raises HeldError: if the guard holds the list; ``compare`` has been called by then
    :raises PullError: as `pull` does, and so for all its errors
    """
    report = PullReport(url=settings.url)

    def show(candidate: Candidate, begun: Begun) -> None:
        layer, _ = directory.local.laid_over(Cache(candidate.cache).custom(), begun)
        if run.found is None:
            return
        with IndexReader.open(candidate.index) as base, compiled(layer.values(), 0) as overlay:
            compare((run.found.base, run.found.overlay), (base, overlay))

    with running(directory, to_look=True) as run, contextlib.ExitStack() as opened:
        transport = None if settings.url is None else opened.enter_context(Transport(settings))
        pull_locked(run, settings, transport, report, given=given, url_moved=url_moved, progress=progress, preview=show)
    return report
