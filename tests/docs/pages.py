"""The pages of docs/ that are generated from the code."""

from collections.abc import Callable
from pathlib import Path

from tests.docs import api, cli, errors, man, settings

FOLDER = Path(__file__).parents[2] / "docs"

PAGES: dict[str, Callable[[], str]] = {
    "api.md": api.page,
    "cli.md": cli.page,
    "errors.md": errors.page,
    "geolookup.1": man.page,
    "settings.md": settings.page,
}
