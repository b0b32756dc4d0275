"""Opening what is served: what CURRENT names, or the newest whole generation if that is damaged.

Lookups that are open in this process are told of its publishes here: they need not wait for their next look at CURRENT.
"""

import os
import weakref
from typing import Protocol

from geolookup.model.errors import NoStateError, StateDamagedError
from geolookup.settings.paths import default_home
from geolookup.state.base.current import Current, Published, open_published, read_current


def open_served(home: str, read: Current | None = None) -> Published:
    """Open what is published, or the newest whole generation if CURRENT or what it names is damaged.

    ``read`` is what CURRENT said a moment ago, if it has been read.

    :raises NoStateError: if nothing has been published
    :raises StateDamagedError: if nothing whole is left
    :raises StateTooNewError: if a newer release published it
    """
    try:
        return open_published(home, read)
    except NoStateError as error:
        raise nothing_published(home) from error
    except StateDamagedError as error:
        return open_other(home, str(error))


def served_current(home: str) -> Current | None:
    """The published state, or the one recovery falls back to; None if nothing was ever published.

    :raises StateDamagedError: if nothing whole is left
    :raises StateTooNewError: if a newer release wrote CURRENT
    """
    try:
        published = open_served(home)
    except NoStateError:
        return None
    published.close()
    return published.current


def named_current(home: str) -> Current | None:
    """The content of CURRENT, without a look at the files that it names; if it is damaged itself, as `current_or_none`.

    :raises StateTooNewError: if a newer release wrote CURRENT
    """
    try:
        return read_current(home)
    except NoStateError:
        return None
    except StateDamagedError:
        return current_or_none(home)


def current_or_none(home: str) -> Current | None:
    """`served_current` for a publish: if nothing whole is left, None, and what comes next is the first again."""
    try:
        return served_current(home)
    except StateDamagedError:
        return None


def required_current(home: str) -> Current:
    """The published state.

    :raises NoStateError: if nothing is
    """
    current = current_or_none(home)
    if current is None:
        raise nothing_published(home)
    return current


def nothing_published(home: str) -> NoStateError:
    """The error where nothing is published: it says what is there instead, and what to do."""
    import shlex  # late: opening what is there needs none of it

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
    if home == default_home():
        return NoStateError(f"{home}: nothing has been published here yet: run `geolookup sync`")
    near = _state_near(home)
    what = "nothing has been published here yet" if os.path.isdir(home) else "does not exist, so it holds no state"
    if near is not None:
        return NoStateError(f"{home}: {what}: did you mean {near}?")
    return NoStateError(
        f"{home}: {what}: check the path, or publish something there: GEOLOOKUP_HOME={shown} geolookup sync (with a "
        "FILE, or --url of a service; --bundled for the bundled registry data)"
    )


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
    from difflib import get_close_matches

    beside = get_close_matches(name, states(folder), n=1)
    return os.path.join(folder, beside[0]) if beside else None


def open_other(home: str, problem: str, *, skip: frozenset[int] = frozenset()) -> Published:
    """`recovery.open_newest_whole`, whose module is imported only if there is damage."""
    from geolookup.state.generations.recovery import open_newest_whole

    return open_newest_whole(home, problem, skip=skip)


class Follower(Protocol):
    """Something that follows what is published in a state directory."""

    def look_soon(self) -> None:
        """Look at CURRENT before the next answer."""


_followers: "weakref.WeakKeyDictionary[Follower, str]" = weakref.WeakKeyDictionary()


def be_told(follower: Follower, home: str) -> None:
    """Have ``follower`` told of publishes in ``home`` for as long as it lives."""
    _followers[follower] = os.path.realpath(home)


def tell_followers(home: str) -> None:
    """Tell everyone in this process who follows ``home``."""
    where = os.path.realpath(home)
    for follower, followed in list(_followers.items()):
        if followed == where:
            follower.look_soon()
