"""The first open of a state directory in which nothing has been published: a state from the bundled data."""

import atexit
import logging
import os
import tempfile

from geolookup.errors import StateUnwritableError
from geolookup.lookup.engine import GeoLookup
from geolookup.lookup.freshness import Freshness
from geolookup.lookup.home import resolve
from geolookup.settings.paths import default_home
from geolookup.settings.table import Settings
from geolookup.sources.bundled import BUNDLED, MORE, bundled_date
from geolookup.sources.detect import open_source
from geolookup.sources.locids import Numbering
from geolookup.state.base import files
from geolookup.state.base.clock import now_text
from geolookup.state.base.parts import REGISTRY
from geolookup.state.editor import Editor
from geolookup.state.generations.served import nothing_published
from geolookup.state.publishing.directory import StateDirectory
from geolookup.state.publishing.run import running
from geolookup.sync.pull.staging import ColumnStaging

_log = logging.getLogger("geolookup")

#: Several first lookups at once: all but one wait this long, at most, for the one that builds.
_BUILD_WAIT_S = 120.0


def open_first(home: str, freshness: Freshness) -> GeoLookup:
    """Build the state from the bundled data and open it; a temporary one if the directory cannot be written."""
    try:
        build_bundled_state(home)
    except StateUnwritableError as error:
        return _open_temporary(error, freshness)
    return GeoLookup(home, freshness=freshness)


def open_editor(path: str | os.PathLike[str] | None = None, *, settings: Settings | None = None) -> Editor:
    """Open a state directory for editing custom geolocations; ``path`` and an empty state as for `geolookup.open`.

    :raises NoStateError: as `geolookup.open`
    :raises StateUnwritableError: if the directory cannot be written: an edit must be durable
    """
    settings, home = resolve(path, settings)
    if StateDirectory(home).current() is None:
        if home != default_home() or (settings is not None and settings.url is not None):
            raise nothing_published(home)
        build_bundled_state(home)
    return Editor(home)


def _open_temporary(reason: StateUnwritableError, freshness: Freshness) -> GeoLookup:
    _log.warning("%s; using a temporary state until this process ends", reason)
    home = tempfile.mkdtemp(prefix="geolookup-")
    owner = os.getpid()

    def remove() -> None:
        if os.getpid() == owner:  # a forked child ends too, and must leave its parent's files alone
            files.remove_tree(home)

    atexit.register(remove)
    build_bundled_state(home, quiet=True)
    return GeoLookup(home, temporary=True, freshness=freshness)


def build_bundled_state(home: str, *, quiet: bool = False) -> bool:
    """Publish the bundled data in ``home``, unless something is published there by now; true if it did.

    Countries are geolocations with positive locids in the alphabetical order of their codes; city and coordinates are
    empty there.

    :raises StateUnwritableError: if the directory cannot be written
    """
    directory = StateDirectory(home)
    with running(directory, wait_s=_BUILD_WAIT_S) as run:
        if directory.current() is not None:
            return False
        if not quiet:
            _log.warning(
                "no state yet: building one in %s from the bundled registry data (countries only); %s", home, MORE
            )
        began_at = now_text()
        with run.candidate() as candidate:
            with open_source("", kind=REGISTRY) as reading:
                batches = list(reading.batches())  # small; after the last one all countries are known
                places = reading.gathered.places
                by_code = sorted(places, key=lambda place: place.country)
                numbering = Numbering(enumerate(by_code, start=1))
                with ColumnStaging(candidate, REGISTRY, places, numbering) as staging:
                    for batch in batches:
                        staging.add(batch)
                    staged = staging.finish({"source": BUNDLED})
            published = {
                "source": BUNDLED,
                "url": None,
                "digest": staged.digest,
                "etag": None,
                "began_at": began_at,
                "pulled_at": now_text(),
                "dated": bundled_date(),
                "rows": staged.rows,
            }
            candidate.seal(published, {})
            run.publish(candidate)
    return True
