"""What a process serves: an ASGI application, and what the process must know about it."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from geolookup.web.health import Health
from geolookup.web.metrics import Metrics
from geolookup.web.paths import Paths
from geolookup.web.quick import Answer, not_at_once


def _nothing() -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """An ASGI application with its health and its metrics, which the server updates.

    ``at_once`` is what it can answer without waiting (`geolookup.web.quick`).
    ``start`` is called in the event loop once the process listens, ``close`` when the last answer has ended: neither
    may raise.
    """

    asgi: Any
    at_once: Answer = not_at_once
    paths: Paths = field(default_factory=Paths)
    health: Health = field(default_factory=Health)
    metrics: Metrics = field(default_factory=Metrics)
    start: Callable[[], None] = _nothing
    close: Callable[[], None] = _nothing


#: Opens the application in the process that serves it, and closes what it opened. It is given a folder that all
#: processes of one service share, None if there is one process. With several workers it is pickled.
Opens: TypeAlias = Callable[[str | None], AbstractContextManager[Application]]
