"""Sites: the organisation's places with their names, as a checked file has them, and the line of each."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from geolookup.errors import DataFileError, InvalidAddressError, InvalidRangeError
from geolookup.fields import DEGREES, FIELD_NAMES, LATER_NAMES, UNKNOWN
from geolookup.model import IPBlock

#: What a site has, in the order in which it is written.
KEYS = ("name", *FIELD_NAMES, "blocks")
#: Keys that a file may leave out: coordinates of a geolocation that has none, and keys that earlier releases did not
#: know.
OPTIONAL_KEYS = (*DEGREES, *LATER_NAMES)
MAX_NAME = 200

_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """The position of a site in its file. ``find`` takes a key ("" for the site itself) and a text of its value."""

    path: str
    find: Callable[[str, str], int | None]
    name: str = ""

    def line(self, key: str = "", text: str = "") -> int | None:
        """The number (from 1) of a line, None if it is unknown."""
        return self.find(key, text)

    def error(self, message: str, key: str = "", text: str = "") -> DataFileError:
        """The error, which names the file, the line and the site."""
        line = self.line(key, text)
        site = f"site {self.name!r}: " if self.name else ""
        return DataFileError(f"{self.path}{'' if line is None else f', line {line}'}: {site}{message}")


def _nowhere(_key: str, _text: str) -> int | None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A place with its name in the file.

    ``fields`` are all of a geolocation's; a coordinate is None if the file leaves it out, which only suits a
    geolocation that has none. ``blocks`` are sorted, without repetitions.
    """

    name: str
    fields: dict[str, Any]
    blocks: tuple[IPBlock, ...]
    where: Where = field(default=Where(path="", find=_nowhere), compare=False, repr=False)


def block_text(block: IPBlock) -> str:
    """A block as these files have it: a network if it is one, else an address, else ``first-last``."""
    size = block.last - block.first + 1
    if size > 1 and size & (size - 1) == 0 and block.first % size == 0:
        return f"{block.startip}/{(32 if block.family == 4 else 128) - size.bit_length() + 1}"
    return str(block)


def site_of(values: Mapping[str, Any], where: Where) -> Site:
    name = values.get("name")
    if name is None:
        raise where.error("a site needs a name")
    if not isinstance(name, str) or not name or not name.isprintable() or name != name.strip() or len(name) > MAX_NAME:
        raise where.error(
            f"a site's name is one line of at most {MAX_NAME} characters with no blanks around it, not {name!r:.250}",
            "name",
        )
    where = Where(path=where.path, find=where.find, name=name)
    for key in values:
        if key not in KEYS:
            raise where.error(f"unknown key {key!r}: a site has {', '.join(KEYS)}", key)
    for key in KEYS:
        if key not in values and key not in OPTIONAL_KEYS:
            raise where.error(f"{key} is missing")
    fields: dict[str, Any] = {}
    for key in FIELD_NAMES:
        value = values.get(key, UNKNOWN[key])
        if key in DEGREES:
            fields[key] = _degrees(value, key, where)
        elif isinstance(value, str):
            fields[key] = value
        else:
            raise where.error(f"{key} is text: put {value!r} in quotation marks", key)
    return Site(name=name, fields=fields, blocks=_blocks(values["blocks"], where), where=where)


def _degrees(value: Any, key: str, where: Where) -> float | None:
    if value is None:
        return None
    if (isinstance(value, str) and _NUMBER.fullmatch(value)) or (
        isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= 1e300
    ):
        degrees = float(value)
    else:
        degrees = math.nan
    if not math.isfinite(degrees):
        raise where.error(f"{key} is a number of degrees, not {value!r:.50}", key)
    return degrees


def _blocks(texts: Any, where: Where) -> tuple[IPBlock, ...]:
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise where.error('blocks is a list of texts, like ["10.20.0.0/16", "10.30.0.5-10.30.0.9"]', "blocks")
    blocks: dict[IPBlock, str] = {}
    for text in texts:
        first, dash, last = text.partition("-")
        try:
            block = IPBlock.parse(first, last if dash else None)
        except (InvalidAddressError, InvalidRangeError) as error:
            raise where.error(str(error), "blocks", text) from error
        if block in blocks:
            also = "" if blocks[block] == text else f" (also written {blocks[block]})"
            raise where.error(f"{text} is there twice{also}", "blocks", text)
        blocks[block] = text
    return tuple(sorted(blocks))


def refuse_repetitions(sites: list[Site]) -> None:
    names: dict[str, Site] = {}
    owners: dict[IPBlock, Site] = {}
    for site in sites:
        other = names.setdefault(site.name, site)
        if other is not site:
            raise site.where.error(f"another site has this name{_at(other)}", "name")
        for block in site.blocks:
            owner = owners.setdefault(block, site)
            if owner is not site:
                text = block_text(block)
                raise site.where.error(f"{text} belongs to site {owner.name!r}{_at(owner)} too", "blocks", text)


def _at(site: Site) -> str:
    line = site.where.line()
    return "" if line is None else f" (line {line})"
