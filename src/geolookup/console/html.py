"""From templates to pages. Values may be hostile: they are text everywhere, printable and bounded."""

import os
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from geolookup.base.text import harmless, shown_degrees
from geolookup.model.types import Geolocation, IPBlock
from geolookup.settings.times import in_words, of_day
from geolookup.settings.times import shown as moment
from geolookup.sites.site import block_text
from geolookup.sync import words

#: No text that a page shows is longer; the rest can be seen in the file, or by the command line.
_MAX_SHOWN = 300
#: Except messages of our own, which quote little and end with what to do.
_MAX_MESSAGE = 1_000


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
        self._environment.globals |= {"called": called}
        self._environment.filters |= {
            "degrees": shown_degrees,
            "as_typed": as_typed,
            "changed": changed,
            "block": block_text,
            "count": words.count,
            "grouped": lambda number: f"{number:,}",
            "short": short,
            "short_v6": short_v6,
            "in_words": in_words,
            "of_day": of_day,
            "said": said,
            "moment": moment,
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
        text = harmless(value, _MAX_SHOWN)
        return text if len(value) <= _MAX_SHOWN else f"{text}…"
    return value


#: Blocks that came or went of which a line of the history names each.
_MOST_BLOCKS = 5
#: Names of large numbers, each with the number.
_LARGE = (
    (10**18, "quintillion"),
    (10**15, "quadrillion"),
    (10**12, "trillion"),
    (10**9, "billion"),
    (10**6, "million"),
)
#: Parts of IPv6 addresses by which many of them are counted: what a network has, then what a provider has.
_PARTS_OF_V6 = ((32, 10**12 << 64), (64, 1 << 64))


def short(number: int) -> str:
    """A count as people say it: all digits below a million, in groups, else ``3.7 billion``."""
    for size, name in _LARGE:
        if number >= size:
            return f"{number / size:,.1f}".removesuffix(".0") + f" {name}"
    return f"{number:,}"


def short_v6(number: int) -> str:
    """A count of IPv6 addresses: in networks of a /64, or of a /32, if there are that many."""
    for length, size in _PARTS_OF_V6:
        if number >= size:
            return f"{short(number >> (128 - length))} networks (/{length})"
    return short(number)


def said(value: Any) -> Any:
    """A value of a record for a person: yes or no, a number, text, or the JSON of anything else."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str | int | float) else msgspec.json.encode(value).decode()


def called(place: Geolocation, name: str | None) -> str:
    """A geolocation as people call it: by the name of its site, else by city and country, else by its number."""
    where = ", ".join(each for each in (place.city, place.country) if each)
    return name or where or place.region or f"Geolocation {place.locid}"


def changed(line: Mapping[str, Any]) -> str:
    """The change that a line of the history is about: fields before and after, blocks that came and went."""
    sides = [
        line[name] if isinstance(line[name], dict) and "fields" in line[name] else None for name in ("before", "after")
    ]
    before, after = sides
    if before is None or after is None:
        return ""
    told = [
        f"{name}: {before['fields'].get(name) or '-'} → {value or '-'}"
        for name, value in after["fields"].items()
        if before["fields"].get(name) != value
    ]
    came, went = (
        [each for each in one["blocks"] if each not in other["blocks"]]
        for one, other in ((after, before), (before, after))
    )
    told += [
        f"{sign}{block_text(IPBlock.from_ends(*each))}"
        for sign, many in (("+", came), ("−", went))
        for each in many[:_MOST_BLOCKS]
    ]
    return "; ".join(told)


def as_typed(value: str) -> Markup:
    """The value of a form's field: escaped and otherwise unchanged, since it comes back."""
    return escape(value)


def with_code(text: str | None) -> Markup:
    """A text whose commands stand between backticks, as messages have them: those as code."""
    parts = [escape(part) for part in harmless(text or "", _MAX_MESSAGE).split("`")]
    if len(parts) % 2 == 0:
        return Markup("`").join(parts)
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if number % 2 else part for number, part in enumerate(parts)
    )
