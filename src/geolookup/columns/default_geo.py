"""The GeoLookup that answers if an adapter is given none.

There is one for each state directory, open until the process ends.
"""

from geolookup.lookup import open as opening
from geolookup.lookup.engine import GeoLookup
from geolookup.settings.load import load

_open: dict[str, GeoLookup] = {}


def default_geo() -> GeoLookup:
    """The GeoLookup of the state directory that the settings name; opened at the first call, and never closed.

    :raises NoStateError: if an upstream is configured and nothing has been pulled from it yet
    :raises SettingsError: if the settings cannot be used
    """
    chosen = load()
    home = chosen.state_home()
    geo = _open.get(home)
    if geo is None:
        # Without a lock, which a fork might copy while it is held: it does no harm if two threads both open it at
        # first.
        geo = _open.setdefault(home, opening.open(home, settings=chosen))
    return geo
