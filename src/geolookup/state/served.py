"""Opening what is served: what CURRENT names, or the newest whole generation if that is damaged."""

from geolookup.errors import IndexFileError, IndexTooNewError, NoStateError, StateDamagedError, StateTooNewError
from geolookup.state.current import Current, Published, open_named, open_published


def open_served(home: str) -> Published:
    """Open what is published, or the newest whole generation if CURRENT or what it names is damaged.

    :raises NoStateError: if nothing has been published
    :raises StateDamagedError: if nothing whole is left
    :raises StateTooNewError: if a newer release published it
    """
    try:
        return open_published(home)
    except StateDamagedError as error:
        return open_other(home, str(error))


def served_current(home: str) -> Current | None:
    """What is published, or what recovery falls back to; None if nothing was ever published.

    :raises StateDamagedError: if nothing whole is left
    :raises StateTooNewError: if a newer release wrote CURRENT
    """
    try:
        published = open_served(home)
    except NoStateError:
        return None
    published.close()
    return published.current


def current_or_none(home: str) -> Current | None:
    """`served_current` for whoever publishes: if nothing whole is left, what comes next is the first again."""
    try:
        return served_current(home)
    except StateDamagedError:
        return None


def required_current(home: str) -> Current:
    """What is published.

    :raises NoStateError: if nothing is
    """
    current = current_or_none(home)
    if current is None:
        raise nothing_published(home)
    return current


def nothing_published(home: str) -> NoStateError:
    """The error of who needs what is published, and finds nothing."""
    return NoStateError(f"{home}: nothing has been published here yet: run `geolookup sync`")


def open_current(home: str, current: Current) -> Published:
    """`open_served` of a CURRENT that was read under the publish lock, so that nothing it names can go away.

    :raises StateDamagedError: if nothing whole is left
    :raises StateTooNewError: if a newer release published it
    """
    try:
        return open_named(home, current)
    except IndexTooNewError as error:
        raise StateTooNewError(str(error)) from error
    except IndexFileError as error:
        return open_other(home, f"generation {current.generation} cannot be used: {error}")


def open_other(home: str, problem: str, *, skip: frozenset[int] = frozenset()) -> Published:
    """`recovery.open_newest_whole`, whose module is imported only if there is damage."""
    from geolookup.state.generations.recovery import open_newest_whole

    return open_newest_whole(home, problem, skip=skip)
