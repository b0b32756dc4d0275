"""The application: every page behind its door."""

from types import ModuleType

from litestar import Litestar, Router
from litestar.di import Provide

from geolookup.console import problems
from geolookup.console.console import Console
from geolookup.console.entry.door import Door
from geolookup.console.entry.refusals import Refusals
from geolookup.console.files import one_file
from geolookup.console.forms import AnyRequest, require_own_form
from geolookup.console.pages import custom, edits, generations, lookup, outbox, sources
from geolookup.console.pages import map as map_page
from geolookup.web.application import Application, Paths
from geolookup.web.routing import Methods

#: Every page, in the order of the navigation. Each module has ``PAGE`` and ``HANDLERS``.
PAGES: tuple[ModuleType, ...] = (lookup, map_page, custom, outbox, generations, sources)
#: What they lead to: ``HANDLERS`` without a place in the navigation.
_BEHIND: tuple[ModuleType, ...] = (edits,)
#: No form is larger, except one with a file.
_MAX_BODY_BYTES = 1 << 20


def application(console: Console) -> Application:
    """What the process serves, of a console that it closes at the end."""
    console.navigation = tuple(page.PAGE for page in PAGES)

    async def before(request: AnyRequest) -> None:
        await require_own_form(request, console.session, read_only=console.read_only)

    app = Litestar(
        route_handlers=[
            Router(
                "/",
                route_handlers=[one_file, *(handler for page in (*PAGES, *_BEHIND) for handler in page.HANDLERS)],
                before_request=before,
            )
        ],
        dependencies={"console": Provide(lambda: console, sync_to_thread=False)},
        exception_handlers=problems.handlers(console),
        request_max_body_size=_MAX_BODY_BYTES,
        openapi_config=None,
        logging_config=None,
    )
    # Addresses and places that somebody looks up are nobody else's business: no log has them.
    paths = Paths(private={"/": "/"}, error_page=Refusals(console.templates).page)
    return Application(asgi=Door(Methods(app), console.session, console.templates), paths=paths, close=console.close)
