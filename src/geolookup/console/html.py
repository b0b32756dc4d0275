"""From templates to pages. Values may be hostile: they are text everywhere, printable and bounded."""

import os
import re
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import partial
from typing import Any

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from jinja2.filters import do_urlencode
from markupsafe import Markup, escape

from geolookup.base.text import harmless, short, short_v6, shown_degrees
from geolookup.console import wording
from geolookup.console.past import undo_of
from geolookup.model.continents import country_text
from geolookup.model.types import Geolocation
from geolookup.settings.times import in_words
from geolookup.settings.times import shown as moment_text
from geolookup.sites.site import block_text
from geolookup.state.edits.steps import vrf_place
from geolookup.sync import words

#: No text that a page shows is longer; the rest can be seen in the file, or by the command line.
_MAX_SHOWN = 300
#: Except messages of our own, which quote little and end with what to do.
_MAX_MESSAGE = 1_000

_MOMENT = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(Z|[+-]\d\d:\d\d)", re.ASCII)

_RIGHT = "\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc"
#: Words of scripts that are written from right to left, with what stands between them.
_FROM_THE_RIGHT = re.compile(rf"[{_RIGHT}](?:[{_RIGHT}\s\-–_.'’\"()]*[{_RIGHT}])?")


class Templates:
    """The templates of this folder. Every value between double braces is escaped and made harmless."""

    def __init__(self) -> None:
        self._environment = Environment(
            loader=FileSystemLoader(os.path.join(os.path.dirname(__file__), "templates")),
            autoescape=True,
            undefined=StrictUndefined,
            finalize=shown,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self.say(called=called, no_city=wording.NO_CITY, zone=zone)
        self._environment.filters |= {
            "degrees": shown_degrees,
            "as_typed": as_typed,
            "urlencode": lambda value: Markup(do_urlencode(value)),  # noqa: S704 - and never cut: it would be another
            "changed": wording.changed,
            "block": block_text,
            "brought": wording.brought,
            "pulled": wording.pulled,
            "without_command": wording.without_command,
            "country_name": country_text,
            "count": words.count,
            "grouped": lambda number: f"{number:,}",
            "short": short,
            "some": some,
            "short_v6": short_v6,
            "state": wording.state,
            "edit": wording.edit,
            "step": wording.step,
            "why": wording.why,
            "dated": wording.dated,
            "did": wording.did,
            "undo_of": undo_of,
            "summed": wording.summed,
            "vrf_place": vrf_place,
            "outcome": wording.outcome,
            "reason": wording.reason,
            "holds": wording.holds,
            "label": wording.label,
            "in_words": in_words,
            "said": said,
            "sentence": wording.sentence,
            "moment": moment,
            "second": partial(moment, digits=len("2026-02-01 06:00:00")),
            "with_code": with_code,
        }

    def render(self, template: str, /, **values: Any) -> str:
        """A page, or a part of one."""
        return self._environment.get_template(template).render(**values)

    def say(self, **globals_of_all: Callable[..., Any] | str | bool | int) -> None:
        """Give every template these names."""
        self._environment.globals |= globals_of_all


def shown(value: Any) -> Any:
    """A value as a page shows it: None as nothing, text with only printable characters, cut if it is long."""
    if value is None:
        return ""
    if isinstance(value, str) and not isinstance(value, Markup):
        text = isolated(harmless(value, _MAX_SHOWN))
        return text if len(value) <= _MAX_SHOWN else f"{text}…"
    return value


def isolated(text: str) -> str:
    """The text with each right-to-left part isolated, so that numbers beside it stay in their order."""
    return text if text.isascii() else _FROM_THE_RIGHT.sub("\u2068\\g<0>\u2069", text)


def moment(value: datetime | str, digits: int = len("2026-02-01 06:00")) -> Markup:
    """A moment as a page shows it: to the minute, in this machine's zone, which the foot of the page names.

    Text is a moment in ISO 8601. With scripts a browser shows it in its own zone.
    """
    text = moment_text(value)
    if not _MOMENT.fullmatch(text):
        return escape(text)
    return Markup('<time datetime="{}">{}</time>').format(text.replace(" ", "T"), text[:digits])


def zone() -> str:
    """The name of this machine's zone."""
    return datetime.now().astimezone().tzname() or ""


def said(value: Any) -> Any:
    """A value of a record for a person: yes or no, a number, text, or the JSON of anything else."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str | int | float) else msgspec.json.encode(value).decode()


def some(texts: Iterable[Any], most: int = 20, between: str = ", ") -> Markup:
    """`wording.some` of values as a page shows them, escaped."""
    return Markup(wording.some((escape(shown(each)) for each in texts), most, between=between))  # noqa: S704 - escaped


def called(place: Geolocation, name: str | None) -> str:
    """A geolocation as people call it: by the name of its site, else by city and country, else by its number."""
    where = ", ".join(each for each in (place.city, place.country) if each)
    return name or where or place.region or f"Site {place.locid}"


def as_typed(value: str) -> Markup:
    """The value of a form's field: escaped and otherwise unchanged, since it comes back."""
    return escape(value)


def with_code(text: str | None) -> Markup:
    """A text whose commands stand between backticks, as messages have them: those as code. HTML of ours stays."""
    if isinstance(text, Markup):
        return text
    parts = [escape(part) for part in isolated(harmless(text or "", _MAX_MESSAGE)).split("`")]
    if len(parts) % 2 == 0:
        return Markup("`").join(parts)
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if number % 2 else part for number, part in enumerate(parts)
    )
