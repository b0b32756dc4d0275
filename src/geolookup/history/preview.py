"""Previews: answers that an edit, a file of sites or a pull would change. Nothing is published, nothing is edited."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from geolookup.history.impact import Impact, PlaceChange, changes_within, compiled, impact
from geolookup.http.transport import Transport
from geolookup.index.compare import LayerPair
from geolookup.index.reader import IndexReader
from geolookup.model.errors import UnknownVrfError
from geolookup.model.linter import Finding, lint
from geolookup.model.reports import Progress, unwatched
from geolookup.settings.table import Settings
from geolookup.sources.definition import Definition
from geolookup.state.base.candidate import Candidate
from geolookup.state.base.marks import Begun
from geolookup.state.base.vrfs import in_vrf, over
from geolookup.state.editor import Editor
from geolookup.state.edits.layer import Laid
from geolookup.state.generations.cache import Cache
from geolookup.state.publishing.directory import StateDirectory
from geolookup.state.publishing.run import running
from geolookup.sync.pull.context import PullReport
from geolookup.sync.pull.pull import pull_locked


@contextlib.contextmanager
def with_custom_layer(
    directory: StateDirectory, layer: Iterable[Laid], vrf: str = ""
) -> Iterator[tuple[LayerPair, LayerPair]]:
    """The served layers, and the same with another custom layer; or in a ``vrf`` with another layer of that.

    :raises NoStateError: if nothing has been published
    """
    published = directory.open()
    try:
        custom = before = published.overlay
        with compiled(layer, published.current.generation) as after:
            if vrf:
                with contextlib.suppress(UnknownVrfError):  # a new one: its addresses are those of the global table
                    before = in_vrf(directory.home, published, vrf).overlay
                after = over(after, custom)
            yield (published.base, before), (published.base, after)
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
    directory: StateDirectory, editor: Editor, edit: Callable[[Editor], Any], *, most: int, whole: bool, vrf: str = ""
) -> EditPreview:
    """The effect of ``edit`` on the answers. It is made in a rehearsal: without a lock, and without the right to write.

    An edit of a site of a ``vrf`` is looked at within that. Up to ``most`` segments are looked at place by place; what
    has more is counted by country if ``whole``, which is a walk over the index.

    :raises NoStateError: if nothing has been published
    :raises EditError: if it cannot be made
    """
    with editor.rehearsal():
        before, names = _places(editor, vrf)
        edit(editor)
        after, named = _places(editor, vrf)
        names |= named
    touched = [
        side[locid].place
        for side, other in ((before, after), (after, before))
        for locid in side
        if locid not in other or other[locid].place != side[locid].place
    ]
    blocks = {block for place in touched for block in place.ipblocks}
    with with_custom_layer(directory, after.values(), vrf) as (old, new):
        changes = changes_within(old, new, blocks, most=most)
        by_country = impact(old, new) if changes is None and whole else None
    found = lint([laid.place for laid in after.values()])
    known = set(lint([laid.place for laid in before.values()])) if found else set()
    found = [finding for finding in found if finding not in known]
    return EditPreview(changes=changes, by_country=by_country, findings=found, names=names)


def _places(editor: Editor, vrf: str) -> tuple[dict[int, Laid], dict[int, str]]:
    """The places of the global table, or of a VRF, and the names of its sites, by their numbers."""
    if not vrf:
        return {laid.place.locid: laid for laid in editor.custom()}, editor.site_names()
    places = editor.vrf_places(vrf)
    laid = {place.locid: Laid(place=place) for place in places.values()}
    return laid, {place.locid: name for name, place in places.items()}


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
        layer, *_ = directory.local.laid_over(Cache(candidate.cache).custom(), begun)
        if run.found is None:
            return
        with IndexReader.open(candidate.index) as base, compiled(layer.values(), 0) as overlay:
            compare((run.found.base, run.found.overlay), (base, overlay))

    with running(directory, to_look=True) as run, contextlib.ExitStack() as opened:
        transport = None if settings.url is None else opened.enter_context(Transport(settings))
        pull_locked(run, settings, transport, report, given=given, url_moved=url_moved, progress=progress, preview=show)
    return report
