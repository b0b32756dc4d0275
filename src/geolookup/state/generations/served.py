"""Opening what is served: what CURRENT names, or the newest whole generation if that is damaged.

Lookups that are open in this process are told of its publishes here: they need not wait for their next look at CURRENT.
"""

import os
import weakref
from typing import Protocol

from geolookup.model.errors import NoStateError, StateDamagedError
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


def nothing_published(home: str, *, unwritable: str = "") -> NoStateError:
    """`absent.nothing_published`, whose module is imported only where nothing is published."""
    from geolookup.state.generations import absent

    return absent.nothing_published(home, unwritable=unwritable)


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
