"""Previews: whose answer would change, once a file of sites is applied or what the service has is published."""

import contextlib
from collections.abc import Callable, Iterable, Iterator

from geolookup.history.impact import compiled
from geolookup.http.transport import Transport
from geolookup.index.compare import LayerPair
from geolookup.index.reader import IndexReader
from geolookup.settings.table import Settings
from geolookup.state.base.candidate import Candidate
from geolookup.state.base.marks import Begun
from geolookup.state.edits.layer import Laid
from geolookup.state.generations.cache import Cache
from geolookup.state.publishing.directory import StateDirectory
from geolookup.state.run import running
from geolookup.sync.pull.pull import PullProgress, pull_locked
from geolookup.sync.pull.report import PullReport

#: Told the layers before and after.
Look = Callable[[LayerPair, LayerPair], None]


@contextlib.contextmanager
def with_custom_layer(directory: StateDirectory, layer: Iterable[Laid]) -> Iterator[tuple[LayerPair, LayerPair]]:
    """What is served, and the same with another custom layer.

    :raises NoStateError: if nothing has been published
    """
    published = directory.open()
    try:
        with compiled(layer, published.current.generation) as overlay:
            yield (published.base, published.overlay), (published.base, overlay)
    finally:
        published.close()


def preview_pull(
    directory: StateDirectory,
    settings: Settings,
    look: Look,
    *,
    url_moved: bool = False,
    progress: PullProgress = lambda _done, _total: None,
) -> PullReport:
    """Do what `pull` does without publishing: ``look`` is shown what would be served, which is then thrown away.

    It is not called if the service has what is served. What the guard holds is kept, as by a pull. If nothing
    is published yet there is nothing to compare with, and ``look`` is not called either.

    :raises HeldError: if the guard holds the list; ``look`` has been called by then
    :raises PullError: as `pull` does, and so for all its errors
    """
    report = PullReport(url=settings.url)

    def show(candidate: Candidate, begun: Begun) -> None:
        layer, _ = directory.local.laid_over(Cache(candidate.cache).custom(), begun)
        if run.found is None:
            return
        with IndexReader.open(candidate.index) as base, compiled(layer.values(), 0) as overlay:
            look((run.found.base, run.found.overlay), (base, overlay))

    with running(directory) as run, contextlib.ExitStack() as opened:
        transport = None if settings.url is None else opened.enter_context(Transport(settings))
        pull_locked(run, settings, transport, report, url_moved=url_moved, progress=progress, preview=show)
    return report
