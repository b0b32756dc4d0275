"""An application of Litestar with what every application of this service has: probes, metrics, problems, OpenAPI."""

from collections.abc import Iterable, Mapping
from typing import Any

from litestar import Litestar, Router
from litestar.di import Provide
from litestar.openapi import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin, YamlRenderPlugin

from geolookup.base.version import __version__
from geolookup.web import openapi, problems, wire
from geolookup.web.health import Health, healthz, quick_healthz, readyz
from geolookup.web.methods import Methods
from geolookup.web.metrics import Metrics, metrics_page
from geolookup.web.quick import Answer, Quick


def routed(
    handlers: Iterable[Any],
    dependencies: Mapping[str, Any],
    *,
    title: str,
    quick: Mapping[str, tuple[Any, Answer]] | None = None,
    health: Health | None = None,
    metrics: Metrics | None = None,
) -> Methods:
    """The ASGI application of these handlers; ``dependencies`` are the objects that they need, by name.

    ``quick`` are the answers that come before the framework, as `Quick` takes them.

    It does not refuse clients itself: `geolookup.web.guard.Guard` goes around it.
    """
    known = {**dependencies, "health": health or Health(), "metrics": metrics or Metrics()}
    app = Litestar(
        # One router, since Litestar (2.25) wraps a handler in one more worker thread for each later handler that is
        # registered with the application itself under the same path.
        route_handlers=[Router("/", route_handlers=[*handlers, healthz, readyz, metrics_page])],
        dependencies={name: _provide(value) for name, value in known.items()},
        exception_handlers=problems.HANDLERS,
        request_max_body_size=wire.MAX_BODY_BYTES,
        # The pages that Litestar offers load scripts from other hosts: only the document itself is served.
        openapi_config=OpenAPIConfig(
            title=title,
            version=__version__,
            components=openapi.COMPONENTS,
            security=openapi.SECURITY,
            render_plugins=[JsonRenderPlugin(), YamlRenderPlugin()],
            openapi_router=Router(
                "/schema", route_handlers=[], include_in_schema=False, after_request=problems.no_html_not_found
            ),
        ),
        logging_config=None,
    )
    return Methods(Quick(app, {"/healthz": (healthz, quick_healthz), **(quick or {})}))


def _provide(value: Any) -> Provide:
    return Provide(lambda: value, sync_to_thread=False)
