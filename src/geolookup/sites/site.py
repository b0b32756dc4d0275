"""Sites: the organisation's places with their names, as a checked file has them, and the line of each."""

import itertools
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from geolookup.files.tables import BadRows
from geolookup.model.addresses import of_mask_after, range_ends
from geolookup.model.checked import wrong_name
from geolookup.model.errors import DataFileError, InvalidAddressError, InvalidRangeError
from geolookup.model.fields import DEGREES, FIELD_NAMES, UNKNOWN
from geolookup.model.types import IPBlock
from geolookup.sources.outlines import misfits

#: The keys of a site, in the order in which they are written.
KEYS = ("name", *FIELD_NAMES, "blocks")
#: Keys that a file may leave out: coordinates, of a geolocation that has none.
OPTIONAL_KEYS = tuple(DEGREES)

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


def blocks_text(blocks: Iterable[IPBlock], most: int = 20) -> str:
    """Blocks on a line, and how many there are more than ``most``; "" if there is none."""
    texts = [block_text(block) for block in sorted(blocks)]
    more = [f"and {len(texts) - most} more"] if len(texts) > most else []
    return " ".join(texts[:most] + more)


class Problems(BadRows):
    """The problems of a file's sites, named all at once; ``notes`` are remarks on what may be right."""

    def __init__(self) -> None:
        super().__init__("nothing was changed: correct what is named, and try again")
        self.notes: list[str] = []


def site_of(values: Mapping[str, Any], where: Where, bad: BadRows) -> Site | None:
    """The site, or None if anything is wrong with it: ``bad`` is told of all that is."""
    name = values.get("name")
    if name is None:
        bad.add(where.error("a site needs a name"))
        return None
    told = wrong_name(name)
    if told is not None:
        bad.add(where.error(told, "name"))
    where = Where(path=where.path, find=where.find, name=name if told is None else "")
    unknown = [key for key in values if key not in KEYS]
    missing = [key for key in KEYS if key not in values and key not in OPTIONAL_KEYS]
    for key in unknown:
        bad.add(where.error(f"unknown key {key!r}: a site has {', '.join(KEYS)}", key))
    for key in missing:
        bad.add(where.error(f"{key} is missing"))
    wrong = len(unknown) + len(missing) + (told is not None)
    fields: dict[str, Any] = {}
    for key in FIELD_NAMES:
        value = values.get(key, UNKNOWN[key])
        try:
            fields[key] = _degrees(value, key, where) if key in DEGREES else _field_text(value, key, where)
        except DataFileError as error:
            bad.add(error)
            wrong += 1
    blocks = None if "blocks" in missing else _blocks(values["blocks"], where, bad)
    if wrong or blocks is None:
        for key, told in misfits({**UNKNOWN, **fields}):
            bad.add(where.error(told, key))  # it is read again in any case: then all of it is known
        return None
    return Site(name=name, fields=fields, blocks=blocks, where=where)


def _field_text(value: Any, key: str, where: Where) -> str:
    if isinstance(value, str):
        return value
    raise where.error(f"{key} is text: put {value!r} in quotation marks", key)


def _degrees(value: Any, key: str, where: Where) -> float | None:
    if value is None:
        return None
    if (isinstance(value, str) and _NUMBER.fullmatch(value.strip())) or (
        isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= 1e300
    ):
        degrees = float(value)
    else:
        degrees = math.nan
    if not math.isfinite(degrees):
        pointed = value.strip().replace(",", ".", 1) if isinstance(value, str) else ""
        hint = f": write {pointed}" if "," in str(value) and _NUMBER.fullmatch(pointed) else ""
        raise where.error(f"{key} is a number of degrees, not {value!r:.50}{hint}", key)
    return degrees


def _blocks(texts: Any, where: Where, bad: BadRows) -> tuple[IPBlock, ...] | None:
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        bad.add(where.error('blocks is a list of texts, like ["10.20.0.0/16", "10.30.0.5-10.30.0.9"]', "blocks"))
        return None
    blocks: dict[IPBlock, str] = {}
    right = True
    for before, text in itertools.pairwise(texts):
        if (network := of_mask_after(before, text)) is not None:
            bad.add(where.error(f"{text} is a netmask, not a block: write {network}", "blocks", text))
            right = False
    for text in texts:
        try:
            block = IPBlock.parse(*range_ends(text))
        except (InvalidAddressError, InvalidRangeError) as error:
            bad.add(where.error(str(error), "blocks", text))
            right = False
            continue
        if block in blocks:
            also = "" if blocks[block] == text else f" (also written {blocks[block]})"
            bad.add(where.error(f"{text} is there twice{also}", "blocks", text))
            right = False
        blocks[block] = text
    return tuple(sorted(blocks)) if right else None


def refuse_repetitions(sites: list[Site], bad: BadRows) -> None:
    """Tell ``bad`` of names and blocks that two sites have."""
    names: dict[str, Site] = {}
    owners: dict[IPBlock, Site] = {}
    for site in sites:
        other = names.setdefault(site.name, site)
        if other is not site:
            bad.add(site.where.error(f"another site has this name{_at(other)}", "name"))
        for block in site.blocks:
            owner = owners.setdefault(block, site)
            if owner is not site:
                text = block_text(block)
                bad.add(site.where.error(f"{text} belongs to site {owner.name!r}{_at(owner)} too", "blocks", text))


def _at(site: Site) -> str:
    line = site.where.line()
    return "" if line is None else f" (line {line})"
