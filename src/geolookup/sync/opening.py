"""Opening a state directory: for lookups (``geolookup.open``) and for edits (``geolookup.open_editor``).

Both need a state that is there. Commands make the first one in the platform's directory. Light if there is a state.
"""

import os
from typing import Literal

from geolookup.lookup.engine import GeoLookup
from geolookup.lookup.follow import NO_LIMIT, Freshness
from geolookup.model.errors import NoStateError, SettingsError, StateUnwritableError, UnknownVrfError
from geolookup.settings.paths import SETTINGS_FILE, default_home, is_own_settings, may_make_default_home, plain_home

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
    fallback: Literal["registry"] | None = None,
    vrf: str | None = None,
    root: str | os.PathLike[str] | bytes | None = None,
) -> GeoLookup:
    """Open a state directory for lookups, or a fleet by its address.

    ``path`` is the directory; with none, ``GEOLOOKUP_HOME``, the settings file or the platform's user data directory
    say where it is. No state is made: it is an error if nothing has been published there, unless
    ``fallback="registry"`` (or ``GEOLOOKUP_FALLBACK=registry``) asks for countries alone, from the bundled registry
    data, until something is published there. Then ``status().temporary`` is true.

    ``as_of`` opens a kept generation as it was served last, and stays with it: its number, ``"served"``,
    ``"previous"``, or the moment at which it was served: ``"yesterday"``, ``"2d"`` (that long ago), ISO 8601 text, a
    ``datetime``, or a ``date``, which means its end; what has no zone is local. ``max_age`` (seconds, ``"36h"``, or a
    ``timedelta``) is the age past which the data count as stale. ``stale`` says what then happens to lookups:
    ``"serve"``, ``"warn"`` (once, in the log) or ``"refuse"`` (they raise StaleDataError). Lookups as of another time
    are never stale, and have no fallback. ``vrf`` is the routing domain in which lookups answer that name none, "" for
    the global table; a VRF has no past. These four replace the settings of their names.

    ``path`` may be the ``https://`` address of a fleet, and ``root`` its root.json: a file's path, or its bytes. What
    is published there is fetched now, and at each `GeoLookup.refresh`, into the user's cache directory
    (``XDG_CACHE_HOME``), which the next one to open it finds. If it cannot be fetched, what is there already is opened,
    with a warning.

    :raises NoStateError: if nothing has been published in the directory; the message names it, why it was looked for
        there, and what to do
    :raises UpstreamError: if a fleet is opened for the first time, and cannot be fetched
    :raises UnknownGenerationError: if ``as_of`` means no kept generation
    :raises UnknownVrfError: if ``vrf``, or the setting, names no VRF; the message lists the names
    :raises SettingsError: if the settings, or ``max_age``, ``stale``, ``fallback`` or ``vrf``, cannot be used
    """
    if isinstance(path, str) and path.startswith(("https://", "http://")):
        from geolookup.sync.remote import open_fleet  # late: it needs what a sync needs

        if as_of is not None or fallback is not None:
            raise SettingsError("a fleet is opened as it is now: as_of and fallback are for state directories")
        return open_fleet(path, root, settings, freshness_of(settings, max_age, stale), vrf)
    if root is not None:
        raise SettingsError("root is for a fleet, whose address begins with https://")
    settings, home = resolve(path, settings)
    freshness = freshness_of(settings, max_age, stale)
    return _open(home, settings, as_of, freshness, _fallback_of(settings, fallback), vrf)


def open_or_build(
    path: str | os.PathLike[str] | None = None,
    *,
    settings: "Settings | None" = None,
    as_of: "Reference | None" = None,
    stale: "StaleRule | None" = None,
    vrf: str | None = None,
) -> GeoLookup:
    """`open` for commands: in the platform's directory they make the first state, from the bundled registry data.

    They make none if an upstream is configured. If the directory cannot be written, the error is that of `open`.
    """
    settings, home = resolve(path, settings)
    freshness = freshness_of(settings, stale=stale)
    return _open(home, settings, as_of, freshness, _fallback_of(settings, None), vrf, builds=True)


def _open(
    home: str,
    settings: "Settings | None",
    as_of: "Reference | None",
    freshness: Freshness,
    fallback: Literal["registry"] | None,
    vrf: str | None,
    *,
    builds: bool = False,
) -> GeoLookup:
    if vrf is None and settings is not None and settings.vrf:
        try:
            return _open(home, settings, as_of, freshness, fallback, settings.vrf, builds=builds)
        except UnknownVrfError as error:
            raise UnknownVrfError(f"{error} (the setting `vrf` names it)") from error
    try:
        return GeoLookup(home, freshness=freshness, as_of=as_of, vrf=vrf)
    except NoStateError:
        if as_of is not None or (fallback is None and not (builds and _may_build(home, settings))):
            raise
    if builds and _may_build(home, settings):
        try:
            _build(home)
            return GeoLookup(home, freshness=freshness, vrf=vrf)
        except NoStateError:
            if fallback is None:
                raise
    return GeoLookup(home, instead=_registry(), freshness=freshness, vrf=vrf)


def open_editor(path: str | os.PathLike[str] | None = None, *, settings: "Settings | None" = None) -> "Editor":
    """Open a state directory for editing custom geolocations; ``path`` as for `geolookup.open`.

    :raises NoStateError: if nothing has been published in the directory
    :raises EditError: if it is a reader of a fleet: the message names the machine that edits
    :raises StateUnwritableError: if the directory cannot be written: an edit must be durable
    """
    from geolookup.state.editor import Editor
    from geolookup.state.generations.served import nothing_published
    from geolookup.state.publishing.directory import StateDirectory
    from geolookup.state.sessions import require_own

    _, home = resolve(path, settings)
    current = StateDirectory(home).current()
    if current is None:
        raise nothing_published(home)
    require_own(current)
    return Editor(home)


def edit_or_build(path: str | os.PathLike[str] | None = None, *, settings: "Settings | None" = None) -> "Editor":
    """`open_editor` for commands, which make the first state as in `open_or_build`."""
    settings, home = resolve(path, settings)
    try:
        return open_editor(home, settings=settings)
    except NoStateError:
        if not _may_build(home, settings):
            raise
    _build(home)
    return open_editor(home, settings=settings)


def _may_build(home: str, settings: "Settings | None") -> bool:
    """True if a command may make the first state there: nobody named another directory, or an upstream."""
    return home == default_home() and (settings is None or settings.url is None)


def _build(home: str) -> None:
    """Make the first state in the platform's directory.

    :raises NoStateError: if it cannot be written
    """
    from geolookup.state.generations.served import nothing_published  # late: it needs most of what a pull needs
    from geolookup.sync.first import build_bundled_state

    if not may_make_default_home():
        raise nothing_published(home, unwritable="no first state is made without the directory that HOME names")
    try:
        build_bundled_state(home)
    except StateUnwritableError as error:
        raise nothing_published(home, unwritable=str(error)) from error


def _fallback_of(settings: "Settings | None", fallback: Literal["registry"] | None) -> Literal["registry"] | None:
    if fallback not in (None, "registry"):
        raise SettingsError(f"fallback = {fallback!r:.40}: must be registry, or None")
    if fallback is None and settings is not None and settings.has_fallback:
        return "registry"
    return fallback


def _registry() -> str:
    """A state with the bundled registry data, in a temporary directory, until this process ends."""
    import atexit
    import tempfile

    from geolookup.base.reasons import reason
    from geolookup.state.base.files import remove_tree
    from geolookup.sync.first import build_bundled_state

    try:
        home = tempfile.mkdtemp(prefix="geolookup-")
    except OSError as error:  # a container without a place that can be written
        raise StateUnwritableError(
            f"fallback = registry needs a temporary directory, and TMPDIR names none to write in: {reason(error)}"
        ) from error
    owner = os.getpid()

    def remove() -> None:
        if os.getpid() == owner:  # a forked child ends too, and must leave its parent's files alone
            remove_tree(home)

    atexit.register(remove)
    build_bundled_state(home, quiet=True)
    return home


def resolve(path: str | os.PathLike[str] | None, settings: "Settings | None") -> "tuple[Settings | None, str]":
    """The settings, or None if only the state directory is set; and the state directory's absolute path.

    :raises SettingsError: if the settings cannot be used
    """
    home = None
    chosen = None if path is None else os.path.abspath(os.fspath(path))
    if settings is None:
        home = plain_home()
        if home is None or (chosen is not None and is_own_settings(os.path.join(chosen, SETTINGS_FILE))):
            from geolookup.settings.load import load

            settings = load(home=chosen)
    if chosen is not None:
        return settings, chosen
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
