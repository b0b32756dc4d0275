"""The first state: published from the bundled data if nothing is published yet."""

import logging

from geolookup.sources.bundled import BUNDLED, MORE, bundled_date
from geolookup.sources.detect import open_source
from geolookup.sources.locids import Numbered, Numbering
from geolookup.state.base.clock import now_text
from geolookup.state.base.parts import REGISTRY
from geolookup.state.publishing.directory import StateDirectory
from geolookup.state.publishing.run import running
from geolookup.sync.pull.staging import ColumnStaging

_log = logging.getLogger("geolookup")

#: Several first lookups at once: all but one wait this long, at most, for the one that builds.
_BUILD_WAIT_S = 120.0


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
                numbering = Numbering([Numbered.of(enumerate(by_code, start=1))])
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
