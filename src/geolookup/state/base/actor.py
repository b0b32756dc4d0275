"""The user who changes the state, and from where, for the history."""

import contextlib
import functools
import os
import pwd
from collections.abc import Iterator
from contextvars import ContextVar

_via: ContextVar[str] = ContextVar("geolookup_via", default="library")


@contextlib.contextmanager
def acting(via: str) -> Iterator[None]:
    """Have what is recorded in a ``with`` come from ``via``: ``command``, ``console``, or ``apply FILE``."""
    before = _via.set(via)
    try:
        yield
    finally:
        _via.reset(before)


def via() -> str:
    """Where changes come from now: ``library`` unless `acting` says otherwise."""
    return _via.get()


def who() -> str:
    """The name of the system's user, who is also behind the console; the user's number if it has no name."""
    return _name(os.geteuid())


@functools.cache
def _name(user: int) -> str:
    with contextlib.suppress(KeyError):
        return pwd.getpwuid(user).pw_name
    return str(user)
