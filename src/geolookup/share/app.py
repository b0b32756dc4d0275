"""The application: lookups, databases, and the protocols by which tools fetch them."""

import time
from collections.abc import Callable

from litestar import get

from geolookup.base.version import __version__
from geolookup.lookup.engine import GeoLookup
from geolookup.share import databases, elastic, geoip2, updates
from geolookup.share.files import Files
from geolookup.share.shelf import Shelf
from geolookup.share.state import State
from geolookup.web import lookups as lookups_routes
from geolookup.web.application import Application, Paths
from geolookup.web.probes import Health, Metrics
from geolookup.web.routing import routed

PATHS = lookups_routes.PATHS | geoip2.PATHS | Paths(basic=True, after_token=frozenset({"/elastic/"}))


def application(
    geo: GeoLookup, folder: str, *, licence_allows: bool = False, clock: Callable[[], float] = time.time
) -> Application:
    """What one process serves of an open state, which it does not close, and of the files built into ``folder``."""
    state = State(geo, licence_allows=licence_allows)
    files = Files(Shelf(folder), state, clock=clock)
    health = Health(state=lambda: geo.problem is None, files=files.is_built)
    metrics = Metrics()
    asgi = routed(
        [
            links,
            *lookups_routes.HANDLERS,
            *databases.HANDLERS,
            *updates.HANDLERS,
            *elastic.HANDLERS,
            *geoip2.HANDLERS,
        ],
        {"lookups": state, "shared": state, "files": files},
        title="geolookup share",
        quick=lookups_routes.quick(state),
        health=health,
        metrics=metrics,
    )
    return Application(asgi=asgi, at_once=asgi.at_once, paths=PATHS, health=health, metrics=metrics)


@get("/", include_in_schema=False, sync_to_thread=False)
def links() -> dict[str, str]:
    """Where to go from here."""
    return {"service": f"geolookup {__version__}", "databases": "/databases", "openapi": "/schema/openapi.json"}
