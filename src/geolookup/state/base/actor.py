"""The user who changes the state, and from where, for the history."""

import contextlib
import functools
import os
import pwd
from collections.abc import Iterator
from contextvars import ContextVar

_via: ContextVar[str] = ContextVar("geolookup_via", default="library")
_person: ContextVar[str] = ContextVar("geolookup_person", default="")


@contextlib.contextmanager
def acting(via: str, person: str | None = None) -> Iterator[None]:
    """Have what is recorded in a ``with`` come from ``via``: ``command``, ``console``, or ``apply FILE``.

    ``person`` is a name that the user gave, as several people may share an account; None leaves it as it is.
    """
    before, before_person = _via.set(via), _person.set(_person.get() if person is None else person)
    try:
        yield
    finally:
        _via.reset(before)
        _person.reset(before_person)


def via() -> str:
    """Where changes come from now: ``library`` unless `acting` says otherwise."""
    return _via.get()


def who() -> str:
    """The name of the system's user, or its number if it has none; behind the name that a person gave, if one did."""
    name = _name(os.geteuid())
    return f"{_person.get()} ({name})" if _person.get() else name


@functools.cache
def _name(user: int) -> str:
    with contextlib.suppress(KeyError):
        return pwd.getpwuid(user).pw_name
    return str(user)
