"""An ASGI application as the server, the guard and the observer see it.

It has answers at once, paths that are treated in their own way, health and metrics.
"""

import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from geolookup.web.probes import Health, Metrics

#: The JSON of a 200, from a request's scope, given without waiting. If it is None, or raises, the framework is asked.
AnswerAtOnce: TypeAlias = Callable[[Any], bytes | None]
#: Renders a problem in another form than its own: (name, status, detail) to a value for JSON.
ErrorForm: TypeAlias = Callable[[str, int, str], Any]
#: Renders a problem for a person: (name, status, detail) to a page of HTML and the headers that it needs.
ErrorPage: TypeAlias = Callable[[str, int, str], tuple[str, Mapping[str, str]]]

#: Methods that change nothing (RFC 9110, section 9.2.1), of those that are answered here.
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
#: A token that `geolookup serve-token` made.
_TOKEN = re.compile(r"glk_[A-Za-z0-9_-]+", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Paths:
    """The paths of an application that need special treatment; ``|`` joins those of several rooms."""

    #: A POST there changes nothing, so a token with the scope ``read`` is enough.
    reading_posts: frozenset[str] = frozenset()
    #: A GET there is answered by a stream that holds something open: `Limits.lists` counts them.
    lists: frozenset[str] = frozenset()
    #: Beginnings of paths whose rest is private, each with what the access log has in the path's place.
    private: Mapping[str, str] = field(default_factory=dict)
    #: True if a token may also be the password of basic credentials (RFC 7617), of any user.
    basic: bool = False
    #: Beginnings of paths before which a token may stand as a part of its own, for programs that send no headers.
    after_token: frozenset[str] = frozenset()
    #: Beginnings of paths whose errors have another form than that of problems.
    error_forms: Mapping[str, ErrorForm] = field(default_factory=dict)
    #: The page that a browser gets for a problem, if people use the application. Programs that ask for JSON get the
    #: problem.
    error_page: ErrorPage | None = None

    def __or__(self, other: "Paths") -> "Paths":
        """The paths of both."""
        return Paths(
            reading_posts=self.reading_posts | other.reading_posts,
            lists=self.lists | other.lists,
            private={**self.private, **other.private},
            basic=self.basic or other.basic,
            after_token=self.after_token | other.after_token,
            error_forms={**self.error_forms, **other.error_forms},
            error_page=self.error_page or other.error_page,
        )

    def is_list(self, method: str, path: str) -> bool:
        """True if the answer is one of the lists."""
        return method == "GET" and plain_path(path) in self.lists

    def only_reads(self, method: str, path: str) -> bool:
        """True if the request changes nothing."""
        return method in SAFE or (method == "POST" and plain_path(path) in self.reading_posts)

    def logged(self, path: str) -> str:
        """The path as the access log may keep it."""
        # As routing reads it: a request that was refused before routing still has its doubled slashes.
        plain = plain_path(path)
        shown = next((shown for begin, shown in self.private.items() if plain.startswith(begin)), path)
        return _TOKEN.sub("{token}", shown)

    def without_token(self, path: str) -> tuple[str, str | None]:
        """The path without the token that stands before it, and that token, or None."""
        plain = plain_path(path)
        end = plain.find("/", 1)
        if end > 0 and plain.startswith(tuple(self.after_token), end):
            return plain[end:], plain[1:end]
        return path, None

    def error_form(self, path: str) -> ErrorForm | None:
        """The form of the errors of this path if it is not that of problems."""
        plain = plain_path(path)
        if not plain.startswith(tuple(self.error_forms)):  # as nearly all are
            return None
        return next(form for begin, form in self.error_forms.items() if plain.startswith(begin))

    def page_for(self, accepted: str) -> ErrorPage | None:
        """The page of errors for a client whose ``Accept`` this is; None for one that wants problems."""
        accepted = accepted.lower()
        asks_for_json = "json" in accepted and "text/html" not in accepted
        return None if asks_for_json else self.error_page


def plain_path(path: str) -> str:
    """The path as routing reads it: doubled slashes and slashes at the end are ignored."""
    if path[:1] == "/" and path[-1:] != "/" and "//" not in path:  # as nearly all are
        return path
    return "/" + "/".join(part for part in path.split("/") if part)


def not_at_once(_scope: Any) -> None:
    """No answer at once: the application is asked."""


def ignore(*_: object) -> None:
    """Do nothing: for events that the caller does not wait for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """An ASGI application with its health and its metrics, which the server updates.

    ``at_once`` is what it can answer without waiting (`geolookup.web.routing.Quick`).
    ``start`` is called in the event loop once the process listens, ``close`` when the last answer has ended: neither
    may raise.
    """

    asgi: Any
    at_once: AnswerAtOnce = not_at_once
    paths: Paths = field(default_factory=Paths)
    health: Health = field(default_factory=Health)
    metrics: Metrics = field(default_factory=Metrics)
    start: Callable[[], None] = ignore
    close: Callable[[], None] = ignore


#: Opens the application in the process that serves it, and closes what it opened. It is given a folder that all
#: processes of one service share, None if there is one process. With several workers it is pickled.
Opens: TypeAlias = Callable[[str | None], AbstractContextManager[Application]]
