"""Running `geolookup share`: one state, one builder, one process that answers or several."""

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from litestar import get

from geolookup.base.version import __version__
from geolookup.exports import licences
from geolookup.exports.content import collect
from geolookup.lookup.engine import GeoLookup
from geolookup.lookup.follow import Freshness
from geolookup.lookup.snapshot import Snapshot
from geolookup.share import downloads, geoip2
from geolookup.share.background import BackgroundBuilds, shelf_folder
from geolookup.share.build import INSTEAD, Edition
from geolookup.share.build import editions as editions_of
from geolookup.share.files import Files
from geolookup.share.needs import Needs
from geolookup.share.shelf import Shelf
from geolookup.share.state import State
from geolookup.sync import opening
from geolookup.sync.opening import resolve
from geolookup.web import lookups as lookups_routes
from geolookup.web.application import Application, Opens, Paths, ignore
from geolookup.web.launch import launch
from geolookup.web.options import Options
from geolookup.web.probes import Health, Metrics
from geolookup.web.routing import routed

PATHS = lookups_routes.PATHS | geoip2.PATHS | Paths(basic=True, after_token=frozenset({"/elastic/"}))


def application(
    geo: GeoLookup, folder: str, *, licence_allows: bool = False, clock: Callable[[], float] = time.time
) -> Application:
    """The application of one process: an open state, which it does not close, and the files built into ``folder``."""
    state = State(geo, licence_allows=licence_allows)
    files = Files(Shelf(folder), state, clock=clock)
    health = Health(state=lambda: geo.problem is None, files=files.is_built)
    metrics = Metrics()
    metrics.before_each(Needs(geo, metrics).read)
    asgi = routed(
        [
            links,
            *lookups_routes.WITH_FACTS,
            *downloads.HANDLERS,
            *geoip2.HANDLERS,
        ],
        {"lookups": state, "shared": state, "files": files},
        title="geolookup share",
        quick=lookups_routes.quick(state, lookups_routes.WITH_FACTS),
        health=health,
        metrics=metrics,
    )
    return Application(asgi=asgi, at_once=asgi.at_once, paths=PATHS, health=health, metrics=metrics)


@get("/", include_in_schema=False, sync_to_thread=False)
def links() -> dict[str, str]:
    """Where to go from here."""
    return {"service": f"geolookup {__version__}", "databases": "/databases", "openapi": "/schema/openapi.json"}


def share(
    *,
    host: str = "127.0.0.1",
    port: int = 8080,
    path: str | os.PathLike[str] | None = None,
    editions: Iterable[str] = (),
    licence_allows: bool = False,
    options: Options | None = None,
    on_ready: Callable[[str], None] = ignore,
) -> None:
    """Serve what a state answers, until SIGTERM or SIGINT; then end what is under way and return.

    ``path`` is the state as `geolookup.open` takes it. ``editions`` are names of databases, in addition to our own.
    ``on_ready`` is called with the base address once it serves; the files may take longer.

    :raises ServiceError: if the host is beyond loopback and no tokens are given, the address cannot be used, or a
        worker cannot start
    :raises SettingsError: if an edition's name, the settings, the tokens or the certificate cannot be used
    :raises LicenceError: if a source that answers something does not let others have its data, unless
        ``licence_allows``
    :raises StateError: if the state is missing, or reading it failed
    """
    options = options or Options()
    ready = prepared(path, editions_of(editions), licence_allows=licence_allows)
    launch(ready, host=host, port=port, options=options, on_ready=on_ready)


@contextlib.contextmanager
def prepared(
    path: str | os.PathLike[str] | None, editions: tuple[Edition, ...], *, licence_allows: bool
) -> Iterator[Opens]:
    """The state, open, and the builder beside it, until the last process that serves has ended."""
    with contextlib.ExitStack() as stack:
        settings, _ = resolve(path, None)
        geo = stack.enter_context(opening.open_or_build(path, settings=settings))
        if not licence_allows:
            geo.with_networks(partial(_require_leave, geo.home))
        folder = stack.enter_context(shelf_folder(geo.home))
        builder = BackgroundBuilds(geo.home, folder, editions, licence_allows=licence_allows)
        stack.callback(builder.close)
        builder.start()
        yield partial(opened, geo.home, opening.freshness_of(settings), geo.vrf, folder, licence_allows)


def _require_leave(home: str, snapshot: Snapshot) -> None:
    """:raises LicenceError: if a source that answers something does not let others have its data"""
    if licences.forbidden(home, snapshot.current):
        content = collect(snapshot, layer="all", source=None, progress=ignore)
        licences.require_leave(home, snapshot.current, content.credited(), instead=INSTEAD)


@contextlib.contextmanager
def opened(
    home: str, freshness: Freshness, vrf: str | None, folder: str, licence_allows: bool, _shared: str | None
) -> Iterator[Application]:
    with GeoLookup(home, freshness=freshness, vrf=vrf) as geo:
        yield application(geo, folder, licence_allows=licence_allows)
