"""A page of every component, for pictures and tests alone: the console has none."""

from pathlib import Path

from litestar import get
from litestar.di import NamedDependency

from geolookup.console.console import Console, Html
from geolookup.console.forms import AnyRequest


@get("/components", sync_to_thread=True)
def components(request: AnyRequest, console: NamedDependency[Console]) -> Html:
    """Tables, cards, forms, buttons, and each state."""
    template = Path(__file__).with_suffix(".html").read_text(encoding="utf-8")
    text = console.templates._environment.from_string(template).render(
        **console.of_every_page(request)
    )  # it is of tests
    return Html(text, media_type="text/html")


HANDLERS = [components]
