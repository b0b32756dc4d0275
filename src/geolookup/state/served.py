"""Opening what is served: what CURRENT names, or the newest whole generation if that is damaged."""

from geolookup.errors import StateDamagedError
from geolookup.state.current import Published, open_published


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


def open_other(home: str, problem: str, *, skip: frozenset[int] = frozenset()) -> Published:
    """`recovery.open_newest_whole`, whose module is imported only if there is damage."""
    from geolookup.state.generations.recovery import open_newest_whole

    return open_newest_whole(home, problem, skip=skip)
