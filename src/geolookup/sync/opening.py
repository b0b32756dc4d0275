"""Opening a state directory: for lookups (``geolookup.open``) and for edits (``geolookup.open_editor``).

Both answer from the state that is there, else from one that is built from the bundled data. Light if there is a state.
"""

import os

from geolookup.lookup.engine import GeoLookup
from geolookup.lookup.follow import NO_LIMIT, Freshness
from geolookup.model.errors import NoStateError, SettingsError, StateUnwritableError
from geolookup.settings.paths import default_home, plain_home

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import timedelta

    from geolookup.model.types import StaleRule
    from geolookup.settings.table import Settings
    from geolookup.state.editor import Editor
    from geolookup.state.publishing.catalogue import Reference

_RULES = ("serve", "warn", "refuse")


def open(  # noqa: A001
    path: str | os.PathLike[str] | None = None,
    *,
    settings: "Settings | None" = None,
    as_of: "Reference | None" = None,
    max_age: "str | float | timedelta | None" = None,
    stale: "StaleRule | None" = None,
) -> GeoLookup:
    """Open a state directory for lookups.

    ``path`` is the directory; with none, ``GEOLOOKUP_HOME``, the settings file or the platform's user data directory
    say where it is. Somebody who names a directory means a state that is there: it is an error if nothing has been
    published in it. If nothing has been published in the platform's directory and no upstream is configured, the state
    is built there from the bundled registry data (countries only), with a warning in the log; if that directory cannot
    be written, a temporary one serves until this process ends.

    ``as_of`` opens a kept generation as it was served last, and stays with it: its number, ``"served"``,
    ``"previous"``, or the moment at which it was served: ``"yesterday"``, ``"2d"`` (that long ago), ISO 8601 text, a
    ``datetime``, or a ``date``, which means its end; what has no zone is local. ``max_age`` (seconds, ``"36h"``, or a
    ``timedelta``) is the age past which the data count as stale. ``stale`` says what then happens to lookups:
    ``"serve"``, ``"warn"`` (once, in the log) or ``"refuse"`` (they raise StaleDataError). Both replace the settings of
    these names. Lookups as of another time are never stale.

    :raises NoStateError: if the directory that was named holds no state (it may be a file, or mistyped), or if an
        upstream is configured and nothing has been pulled from it yet; the message says what to do
    :raises UnknownGenerationError: if ``as_of`` means no kept generation
    :raises SettingsError: if the settings, or ``max_age`` or ``stale``, cannot be used
    """
    settings, home = resolve(path, settings)
    freshness = freshness_of(settings, max_age, stale)
    try:
        return GeoLookup(home, freshness=freshness, as_of=as_of)
    except NoStateError:
        if as_of is not None or home != default_home() or (settings is not None and settings.url is not None):
            raise
    return _open_first(home, freshness)


def _open_first(home: str, freshness: Freshness) -> GeoLookup:
    """Build the state from the bundled data and open it; a temporary one if the directory cannot be written."""
    from geolookup.sync.first import build_bundled_state  # late: it needs most of what a pull needs

    try:
        build_bundled_state(home)
    except StateUnwritableError as error:
        return _open_temporary(error, freshness)
    return GeoLookup(home, freshness=freshness)


def _open_temporary(why: StateUnwritableError, freshness: Freshness) -> GeoLookup:
    import atexit
    import logging
    import tempfile

    from geolookup.state.base.files import remove_tree
    from geolookup.sync.first import build_bundled_state

    logging.getLogger("geolookup").warning("%s; using a temporary state until this process ends", why)
    home = tempfile.mkdtemp(prefix="geolookup-")
    owner = os.getpid()

    def remove() -> None:
        if os.getpid() == owner:  # a forked child ends too, and must leave its parent's files alone
            remove_tree(home)

    atexit.register(remove)
    build_bundled_state(home, quiet=True)
    return GeoLookup(home, temporary=True, freshness=freshness)


def open_editor(path: str | os.PathLike[str] | None = None, *, settings: "Settings | None" = None) -> "Editor":
    """Open a state directory for editing custom geolocations; ``path`` and an empty state as for `geolookup.open`.

    :raises NoStateError: as `geolookup.open`
    :raises StateUnwritableError: if the directory cannot be written: an edit must be durable
    """
    from geolookup.state.editor import Editor
    from geolookup.state.generations.served import nothing_published
    from geolookup.state.publishing.directory import StateDirectory
    from geolookup.sync.first import build_bundled_state

    settings, home = resolve(path, settings)
    if StateDirectory(home).current() is None:
        if home != default_home() or (settings is not None and settings.url is not None):
            raise nothing_published(home)
        build_bundled_state(home)
    return Editor(home)


def resolve(path: str | os.PathLike[str] | None, settings: "Settings | None") -> "tuple[Settings | None, str]":
    """The settings, or None if only the state directory is set; and the state directory's absolute path.

    :raises SettingsError: if the settings cannot be used
    """
    home = None
    if settings is None:
        home = plain_home()
        if home is None:
            from geolookup.settings.load import load

            settings = load()
    if path is not None:
        return settings, os.path.abspath(os.fspath(path))
    if settings is not None:
        return settings, settings.state_home()
    assert home is not None
    return None, home


def freshness_of(
    settings: "Settings | None",
    max_age: "str | float | timedelta | None" = None,
    stale: "StaleRule | None" = None,
) -> Freshness:
    """The limit to the age of the data that the settings have, ``max_age`` and ``stale`` above them.

    :raises SettingsError: if one of the two cannot be used
    """
    limit_s, rule = (NO_LIMIT.max_age_s, NO_LIMIT.rule) if settings is None else (settings.max_age_s, settings.stale)
    if stale is not None:
        if stale not in _RULES:
            raise SettingsError(f"stale = {stale!r:.40}: must be one of {', '.join(_RULES)}")
        rule = stale
    if max_age is not None:
        from geolookup.settings import times

        try:
            limit_s = times.seconds(max_age)
        except ValueError as error:
            from geolookup.base.reasons import reason  # late: a plain open needs none of it

            raise SettingsError(f"max_age: {reason(error)}") from error
    return Freshness(max_age_s=limit_s, rule=rule)


TYPE_CHECKING = False
