"""The reference service's application: the operations of each room, and what they work with."""

from litestar import get

from geolookup.base.version import __version__
from geolookup.service.geolocations import routes as geolocations_routes
from geolookup.service.geolocations.routes import Geolocations
from geolookup.service.hotels import routes as hotels_routes
from geolookup.service.store.store import Store
from geolookup.web import lookups as lookups_routes
from geolookup.web.lookups import Lookups
from geolookup.web.probes import Health, Metrics
from geolookup.web.routing import Methods, routed

PATHS = geolocations_routes.PATHS | hotels_routes.PATHS | lookups_routes.PATHS


def create_app(
    store: Store,
    lookups: Lookups,
    *,
    ignore_idempotency_keys: bool = False,
    health: Health | None = None,
    metrics: Metrics | None = None,
) -> Methods:
    """The ASGI application over an open store and the index that follows it; it closes neither.

    ``ignore_idempotency_keys`` makes it behave like services without ``Idempotency-Key``.
    """
    return routed(
        [links, *geolocations_routes.HANDLERS, *hotels_routes.HANDLERS, *lookups_routes.HANDLERS],
        {"geolocations": Geolocations(store, ignore_idempotency_keys), "store": store, "lookups": lookups},
        title="geolookup reference service",
        quick=lookups_routes.quick(lookups),
        health=health,
        metrics=metrics,
    )


@get("/", include_in_schema=False, sync_to_thread=False)
def links() -> dict[str, str]:
    """Where to go from here."""
    return {"service": f"geolookup {__version__}", "geolocations": "/geolocations", "openapi": "/schema/openapi.json"}
