"""Which settings and which state directory an open means. Light if there are no settings."""

import os

from geolookup.settings.paths import plain_home

TYPE_CHECKING = False
if TYPE_CHECKING:
    from geolookup.settings.table import Settings


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
