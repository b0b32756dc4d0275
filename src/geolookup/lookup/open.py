"""``geolookup.open``: the state that is there, else one built from the bundled data."""

import atexit
import logging
import os
import tempfile
from datetime import timedelta
from typing import Any, cast, get_args

from geolookup.errors import NoStateError, SettingsError, StateUnwritableError
from geolookup.fields import UNKNOWN
from geolookup.lookup.engine import GeoLookup
from geolookup.lookup.freshness import Freshness
from geolookup.model import StaleRule
from geolookup.settings import durations
from geolookup.settings.load import load
from geolookup.settings.table import Settings
from geolookup.sources.country_ranges import bundled_date, bundled_ranges_path, read_country_ranges
from geolookup.state import files
from geolookup.state.clock import now_text
from geolookup.state.directory import StateDirectory
from geolookup.state.edits.editor import Editor
from geolookup.state.generations.kept import Reference
from geolookup.sync.pull.pull import BUNDLED
from geolookup.sync.pull.staging import Staging
from geolookup.upstream.decode import Block, PulledGeolocation

_log = logging.getLogger("geolookup")

#: Several first lookups at once: all but one wait this long, at most, for the one that builds.
_BUILD_WAIT_S = 120.0


def open(  # noqa: A001
    path: str | os.PathLike[str] | None = None,
    *,
    settings: Settings | None = None,
    as_of: Reference | None = None,
    max_age: str | float | timedelta | None = None,
    stale: StaleRule | None = None,
) -> GeoLookup:
    """Open a state directory for lookups.

    ``path`` is the directory; with none, ``GEOLOOKUP_HOME``, the settings file or the platform's user data directory
    say where it is. Where nothing has been published there and no upstream is configured, the state is built from the
    bundled registry data (countries only), with a warning in the log; where the directory cannot be written, a
    temporary one serves until this process ends.

    ``as_of`` opens a kept generation as it was served last, and stays with it: its number, ``"served"``,
    ``"previous"``, or the moment at which it was served (ISO 8601 text, ``datetime``, or a ``date``, whose end in UTC
    is meant). ``max_age`` (seconds, ``"36h"``, or a ``timedelta``) is the age past which the data count as stale, and
    ``stale`` what then becomes of lookups: ``"serve"``, ``"warn"`` (once, in the log) or ``"refuse"`` (they raise
    StaleDataError); both stand in for the settings of these names. Lookups as of another time are never stale.

    :raises NoStateError: where an upstream is configured and nothing has been pulled from it yet
    :raises UnknownGenerationError: where ``as_of`` means no generation that is kept
    :raises SettingsError: where the settings, or ``max_age`` or ``stale``, cannot be used
    """
    settings, home = _resolve(path, settings)
    freshness = _freshness(settings, max_age, stale)
    try:
        return GeoLookup(home, freshness=freshness, as_of=as_of)
    except NoStateError:
        if settings.url is not None or as_of is not None:
            raise
    try:
        build_bundled_state(home)
    except StateUnwritableError as error:
        return _open_temporary(error, freshness)
    return GeoLookup(home, freshness=freshness)


def _freshness(settings: Settings, max_age: str | float | timedelta | None, stale: StaleRule | None) -> Freshness:
    rule = settings.stale if stale is None else stale
    if rule not in get_args(StaleRule):
        raise SettingsError(f"stale: {rule!r:.40} is none of {', '.join(get_args(StaleRule))}")
    try:
        limit_s = settings.max_age_s if max_age is None else durations.seconds(max_age)
    except (ValueError, TypeError) as error:
        raise SettingsError(f"max_age: {error}") from error
    return Freshness(max_age_s=limit_s, rule=rule)


def open_editor(path: str | os.PathLike[str] | None = None, *, settings: Settings | None = None) -> Editor:
    """Open a state directory for editing custom geolocations; ``path`` and an empty state as for `open`.

    :raises NoStateError: where an upstream is configured and nothing has been pulled from it yet
    :raises StateUnwritableError: where the directory cannot be written: an edit must be durable
    """
    settings, home = _resolve(path, settings)
    if StateDirectory(home).current() is None:
        if settings.url is not None:
            raise NoStateError(f"{home}: nothing has been published here yet: run `geolookup sync`")
        build_bundled_state(home)
    return Editor(home)


def _resolve(path: str | os.PathLike[str] | None, settings: Settings | None) -> tuple[Settings, str]:
    if settings is None:
        settings = load()
    return settings, os.path.abspath(os.fspath(path)) if path is not None else settings.state_home()


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


def build_bundled_state(home: str, *, quiet: bool = False) -> None:
    """Publish the bundled data in ``home``, unless something is published there by now.

    Countries are geolocations with positive locids in the alphabetical order of their codes; city and coordinates are
    empty there.

    :raises StateUnwritableError: where the directory cannot be written
    """
    directory = StateDirectory(home)
    with directory.run_lock(wait_s=_BUILD_WAIT_S):
        if directory.current() is not None:
            return
        if not quiet:
            _log.warning("no state yet: building one in %s from the bundled registry data (countries only)", home)
        began_at = now_text()
        with directory.candidate() as candidate:
            with Staging(candidate) as staging:
                for place in _bundled_geolocations():
                    staging.add([place])
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
            directory.publish(candidate)


def _bundled_geolocations() -> list[PulledGeolocation]:
    countries: dict[str, list[Block]] = {}
    for row in read_country_ranges(bundled_ranges_path()):
        countries.setdefault(row.country, []).append((row.family, row.first, row.last, row.startip, row.endip))
    return [
        PulledGeolocation(
            locid=locid,
            **cast("dict[str, Any]", {**UNKNOWN, "country": country}),
            blocks=countries[country],
        )
        for locid, country in enumerate(sorted(countries), start=1)
    ]
