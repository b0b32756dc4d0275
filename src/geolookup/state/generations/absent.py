"""The error where nothing is published: where that is, why it was looked for there, and what to do."""

import contextlib
import os
import shlex
from difflib import get_close_matches

from geolookup.model.errors import GeoLookupError, NoStateError
from geolookup.settings.load import load
from geolookup.settings.paths import SYSTEM_HOME, default_home, default_reason, settings_path
from geolookup.state.base.files import user_name


def nothing_published(home: str, *, unwritable: str = "") -> NoStateError:
    """The error for ``home``; ``unwritable`` is why a command could not make the first state there."""
    shown = shlex.quote(home)
    if os.path.isfile(home):
        folder = os.path.dirname(home)
        if os.path.exists(os.path.join(folder, "CURRENT")):
            return NoStateError(f"{home}: is a file of a state directory: name the directory, {folder}")
        unset = "unset GEOLOOKUP_HOME, which names it, and " if os.environ.get("GEOLOOKUP_HOME") else ""
        return NoStateError(
            f"{home}: is a file, not a state directory. To answer from a file (MMDB, CSV, a geofeed), {unset}sync it "
            f"into a state first: `geolookup sync {shown}`"
        )
    more = "; ".join(text for text in (_reason(home), unwritable, _system_state(home)) if text)
    more = f" ({more})" if more else ""
    if home == default_home():
        return NoStateError(
            f"{home}: nothing has been published here yet: run `geolookup sync`, name another state with "
            f"GEOLOOKUP_HOME, or have countries only with GEOLOOKUP_FALLBACK=registry{more}"
        )
    near = _state_near(home)
    what = "nothing has been published here yet" if os.path.isdir(home) else "does not exist, so it holds no state"
    if near is not None:
        return NoStateError(f"{home}: {what}: did you mean {near}?{more}")
    return NoStateError(
        f"{home}: {what}: check the path, or publish something there: GEOLOOKUP_HOME={shown} geolookup sync (with a "
        f"FILE, or --url of a service; --bundled for the bundled registry data){more}"
    )


def _reason(home: str) -> str:
    """Why this directory and no other; "" if the caller named it."""
    named = os.environ.get("GEOLOOKUP_HOME")
    if named and os.path.abspath(os.path.expanduser(named)) == home:
        return "GEOLOOKUP_HOME names this directory"
    with contextlib.suppress(GeoLookupError):
        written = load(environ={})
        if written.home and written.state_home() == home:
            return f"`home` in {settings_path()} names this directory"
    if home == default_home():
        return f"no setting names a directory, the user is {user_name(os.geteuid())}, and {default_reason()}"
    return ""


def _system_state(home: str) -> str:
    """The state of the machine's service, if there is one; the homes of other users are not searched."""
    if home == SYSTEM_HOME:
        return ""
    try:
        os.stat(os.path.join(SYSTEM_HOME, "CURRENT"))
    except PermissionError:
        return f"{SYSTEM_HOME} is there, and this user may not enter it"
    except OSError:
        return ""
    return f"there is a state in {SYSTEM_HOME}: set GEOLOOKUP_HOME={SYSTEM_HOME}"


def _state_near(home: str) -> str | None:
    """A state directory that may be meant: one inside, above, or beside with nearly the same name."""
    folder, name = os.path.split(home)

    def states(where: str) -> list[str]:
        try:
            return [each for each in os.listdir(where) if os.path.exists(os.path.join(where, each, "CURRENT"))]
        except OSError:
            return []

    inside = states(home)
    if len(inside) == 1:
        return os.path.join(home, inside[0])
    if os.path.exists(os.path.join(folder, "CURRENT")):
        return folder
    beside = get_close_matches(name, states(folder), n=1)
    return os.path.join(folder, beside[0]) if beside else None
