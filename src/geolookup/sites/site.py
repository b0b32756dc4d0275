"""Sites: the organisation's places with their names, as a checked file has them, and the line of each."""

import itertools
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from geolookup.base.reasons import reason
from geolookup.base.text import count
from geolookup.files.tables import MOST_NAMED, BadRows
from geolookup.model.addresses import is_netmask, of_mask_after, range_ends
from geolookup.model.checked import checked_fields, lacks_coordinates, missing_coordinate, wrong_name, wrong_time_zone
from geolookup.model.errors import DataFileError, EditError, InvalidAddressError, InvalidRangeError
from geolookup.model.fields import DEGREES, FIELD_NAMES, UNKNOWN
from geolookup.model.types import Geolocation, IPBlock
from geolookup.sources.outlines import misfits

#: The keys of a site, in the order in which they are written.
KEYS = ("name", *FIELD_NAMES, "blocks")
#: Keys that a file may leave out: coordinates, of a geolocation that has none.
OPTIONAL_KEYS = tuple(DEGREES)
#: The key of the routing domain that a site belongs to; it is in a file only if its sites belong to some.
VRF = "vrf"
#: The key of its time zone; as the name it is local knowledge, and only in a file if a site has one.
TIME_ZONE = "time_zone"
#: The key of what an exported site was (`sites.since`), and of the moment of the export, of which a file has one.
MADE_FROM = "made_from"
MADE_AT = "made_at"

_MOST_NAMED = 20
_MADE_FROM = re.compile(r"([a-p]{12})?", re.ASCII)
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """The position of a site in its file. ``find`` takes a key ("" for the site itself) and a text of its value.

    ``columns`` are those of a table by key, and ``word`` is what a line of it is called: a sheet has rows.
    """

    path: str
    find: Callable[[str, str], int | None]
    name: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)
    word: str = "line"

    def line(self, key: str = "", text: str = "") -> int | None:
        """The number (from 1) of a line, None if it is unknown."""
        return self.find(key, text)

    def at(self) -> str:
        """The site's line in brackets, after a blank; "" if it is unknown."""
        line = self.line()
        return "" if line is None else f" ({self.word} {line})"

    def error(self, message: str, key: str = "", text: str = "") -> DataFileError:
        """The error, which names the file, the line and the site."""
        line = self.line(key, text)
        site = f"site {self.name!r}: " if self.name else ""
        return DataFileError(f"{self.path}{'' if line is None else f', {self.word} {line}'}: {site}{message}")

    def problem(self, kind: str, message: str, key: str = "", text: str = "", write: str = "") -> "Problem":
        """What is wrong; ``kind`` is the same for all that are wrong in this way, ``write`` what to write instead."""
        return Problem(
            kind=kind,
            message=str(self.error(message, key, text)),
            line=self.line(key, text),
            site=self.name,
            column=self.columns.get(key, key),
            value=text,
            write=write,
            word=self.word,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something that is wrong with a row or site; ``message`` names the file, the line and the site.

    ``word`` is what ``line`` counts: a sheet has rows. ``was`` and ``theirs`` are what a value was and is now, where
    others changed it since the file was made; else None.
    """

    kind: str
    message: str
    line: int | None = None
    site: str = ""
    column: str = ""
    value: str = ""
    write: str = ""
    was: str | None = None
    theirs: str | None = None
    word: str = "line"

    def __str__(self) -> str:
        return self.message

    def as_dict(self) -> dict[str, Any]:
        """For ``--json`` and ``--report``."""
        return asdict(self)


def _nowhere(_key: str, _text: str) -> int | None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A place with its name in the file.

    ``fields`` are all of a geolocation's; a coordinate is None if the file leaves it out, which only suits a
    geolocation that has none. ``blocks`` are sorted, without repetitions. Of the ``unsaid`` fields the file has no
    column: they stay as they are. ``vrf`` is its routing domain, empty for the global table. ``time_zone`` is empty if
    it has none, None if the file does not say it: then it stays, too. ``made_from`` is a digest
    of what an exported site was, at the moment ``made_at``; both are empty if the file does not say them.
    """

    name: str
    fields: dict[str, Any]
    blocks: tuple[IPBlock, ...]
    unsaid: frozenset[str] = frozenset()
    vrf: str = ""
    time_zone: str | None = None
    made_from: str = field(default="", compare=False)
    made_at: str = field(default="", compare=False)
    where: Where = field(default=Where(path="", find=_nowhere), compare=False, repr=False)

    @classmethod
    def of(cls, name: str, place: Geolocation, *, vrf: str = "") -> "Site":
        """A site as its place is, of which no file says anything else."""
        blocks = tuple(sorted(place.ipblocks))
        return cls(name=name, fields=place.fields(), blocks=blocks, vrf=vrf)

    def as_is(self, place: Geolocation, name: str | None = None) -> "Site":
        """The same site as its place is now, perhaps with the name that it has now."""
        other = self.of(self.name if name is None else name, place, vrf=self.vrf)
        return replace(other, made_from=self.made_from, made_at=self.made_at, where=self.where)


def block_text(block: IPBlock) -> str:
    """A block as these files have it: a network if it is one, else an address, else ``first-last``.

    An address that would be read as the netmask of the one before it is written as a network.
    """
    size = block.last - block.first + 1
    if size == 1 and block.family == 4 and is_netmask(block.first):
        return f"{block.startip}/32"
    if size > 1 and size & (size - 1) == 0 and block.first % size == 0:
        return f"{block.startip}/{(32 if block.family == 4 else 128) - size.bit_length() + 1}"
    return str(block)


def blocks_text(blocks: Iterable[IPBlock], most: int = 20) -> str:
    """Blocks on a line, and how many there are more than ``most``; "" if there is none."""
    texts = [block_text(block) for block in sorted(blocks)]
    more = [f"and {len(texts) - most} more"] if len(texts) > most else []
    return " ".join(texts[:most] + more)


class Problems(BadRows):
    """The problems of a file's sites, named all at once; ``notes`` are remarks on what may be right.

    ``said`` is how a table was read, for a person to see before anything is done, and ``asked`` what others changed
    since the file was made, of which a person must say what to keep.
    """

    def __init__(self) -> None:
        super().__init__("nothing was changed: correct what is named, and try again")
        self.notes: list[str] = []
        self.said: list[str] = []
        self.all: list[Problem] = []
        self.asked: list[Problem] = []
        #: True as long as another part of the same file is still to be looked at.
        self.waits = False

    def add(self, problem: str | Exception | Problem) -> None:
        """Note one."""
        super().add(str(problem))
        self.all.append(problem if isinstance(problem, Problem) else Problem(kind="other", message=str(problem)))

    def kinds(self) -> dict[str, list[Problem]]:
        """The problems by kind, in the order of the first of each."""
        found: dict[str, list[Problem]] = {}
        for problem in self.all:
            found.setdefault(problem.kind, []).append(problem)
        return found

    def refuse(self) -> None:
        """See `BadRows`: twenty are named; of more each kind is counted, and its first named."""
        if self.waits:
            return
        if len(self.all) > MOST_NAMED:
            told = [f"{count(len(each), 'row')}: {kind}; the first: {each[0]}" for kind, each in self.kinds().items()]
            raise DataFileError(
                f"{count(len(self.all), 'problem')}, of {count(len(told), 'kind')}:", *told, self.closing
            )
        super().refuse()


def site_of(
    values: Mapping[str, Any], where: Where, bad: Problems, unsaid: frozenset[str] = frozenset()
) -> Site | None:
    """The site, or None if anything is wrong with it: ``bad`` is told of all that is.

    The file does not say the fields ``unsaid`` of any site.
    """
    name = values.get("name")
    if name is None:
        bad.add(where.problem("a site needs a name", "a site needs a name"))
        return None
    told = wrong_name(name)
    if told is not None:
        bad.add(where.problem("the name of a site is not one", told, "name", str(name)))
    where = replace(where, name=name if told is None else "")
    vrf = values.get(VRF, "")
    if vrf != "" and (wrong_vrf := wrong_name(vrf)) is not None:
        bad.add(where.problem("the name of a VRF is not one", f"{VRF}: {wrong_vrf}", VRF, str(vrf)))
        vrf = ""
    zone = values.get(TIME_ZONE)
    if zone is not None and (wrong_zone := wrong_time_zone(zone)) is not None:
        bad.add(where.problem("is not a time zone", wrong_zone, TIME_ZONE, str(zone)))
    made_from = values.get(MADE_FROM, "")
    if not isinstance(made_from, str) or not _MADE_FROM.fullmatch(made_from):
        other = f"{MADE_FROM} is {made_from!r:.40}, which no export wrote: leave it as it was, or empty it"
        bad.add(where.problem(f"{MADE_FROM} is not what an export wrote", other, MADE_FROM, str(made_from)))
        made_from = ""
    unknown = [key for key in values if key not in (*KEYS, VRF, TIME_ZONE, MADE_FROM)]
    missing = [key for key in KEYS if key not in values and key not in OPTIONAL_KEYS and key not in unsaid]
    for key in unknown:
        bad.add(where.problem("unknown key", f"unknown key {key!r}: a site has {', '.join(KEYS)}", key))
    for key in missing:
        bad.add(where.problem(f"{key} is missing", f"{key} is missing"))
    wrong = len(unknown) + len(missing) + (told is not None)
    fields: dict[str, Any] = {}
    for key in FIELD_NAMES:
        value = values.get(key, UNKNOWN[key])
        try:
            fields[key] = _degrees(value, key) if key in DEGREES else _field_text(value, key)
        except ValueError as error:
            kind = f"{key} is not {'a number of degrees' if key in DEGREES else 'text'}"
            bad.add(where.problem(kind, reason(error), key, str(value)))
            wrong += 1
    blocks = None if "blocks" in missing else _blocks(values["blocks"], where, bad)
    if wrong or blocks is None:
        refuse_wrong_fields(fields, where, bad)  # now, so that the next attempt is the last
        return None
    return Site(
        name=name,
        fields=fields,
        blocks=blocks,
        where=where,
        unsaid=unsaid,
        vrf=vrf,
        time_zone=zone,
        made_from=made_from,
    )


def refuse_wrong_fields(
    fields: Mapping[str, Any], where: Where, bad: Problems, *, moved: bool = True, bare: bool = True
) -> bool:
    """Add each field that no edit takes, as far as they are known; ``bare`` as in `checked_fields`.

    ``moved`` asks also for a place that can be meant; true is returned if it cannot.
    """
    told = dict(misfits({**UNKNOWN, **fields})) if moved else {}
    lacks_both = lacks_coordinates(fields)
    # One field is asked about at a time, and so with coordinates that are right.
    given = {} if bare and lacks_both else dict.fromkeys(DEGREES, 0.0)
    for name, value in fields.items():
        if name in told:
            kind = "coordinates are swapped" if name in DEGREES else f"{name} cannot be that"
            bad.add(where.problem(kind, told[name], name, str(value)))
            continue
        try:
            if lacks_both and not bare and name in DEGREES:
                raise EditError(missing_coordinate(name, fields))
            checked_fields({**UNKNOWN, **given, name: value}, bare=bare)
        except EditError as error:
            bad.add(where.problem(f"{name} cannot be that", str(error), name, str(value)))
    return bool(told)


def _field_text(value: Any, key: str) -> str:
    if isinstance(value, str):
        return value
    raise ValueError(f"{key} is text: put {value!r} in quotation marks")


def _degrees(value: Any, key: str) -> float | None:
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
        raise ValueError(f"{key} is a number of degrees, not {value!r:.50}{hint}")
    return degrees


def _blocks(texts: Any, where: Where, bad: Problems) -> tuple[IPBlock, ...] | None:
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        bad.add(
            where.problem(
                "blocks is not a list",
                'blocks is a list of texts, like ["10.20.0.0/16", "10.30.0.5-10.30.0.9"]',
                "blocks",
            )
        )
        return None
    blocks: dict[IPBlock, str] = {}
    right = True
    for before, text in itertools.pairwise(texts):
        if (network := of_mask_after(before, text)) is not None:
            told = f"{text} is a netmask, not a block: write {network}"
            bad.add(where.problem("a netmask in place of a block", told, "blocks", text, str(network)))
            right = False
    for text in texts:
        try:
            block = IPBlock.parse(*range_ends(text))
        except (InvalidAddressError, InvalidRangeError) as error:
            bad.add(where.problem("is not a network or range", str(error), "blocks", text))
            right = False
            continue
        if block in blocks:
            also = "" if blocks[block] == text else f" (also written {blocks[block]})"
            bad.add(where.problem("a block is there twice", f"{text} is there twice{also}", "blocks", text))
            right = False
        blocks[block] = text
    return tuple(sorted(blocks)) if right else None


def notes_of(sites: Iterable[Site], decided: Iterable[str]) -> list[str]:
    """What a person should know of sites that are to be made; ``decided`` are those that stay as others made them."""
    notes = {
        "without networks, so that no address resolves to them": [site for site in sites if not site.blocks],
        "without coordinates, since the file has none and no source has those of their city": [
            site for site in sites if lacks_coordinates(site.fields)
        ],
    }
    found = {
        told: [f"{each.name} of the VRF {each.vrf}" if each.vrf else each.name for each in of]
        for told, of in notes.items()
    }
    found["left as a person decided at an earlier apply, though the file says otherwise"] = [*decided]
    return [f"{told}: {listed(names)}" for told, names in found.items() if names]


def listed(names: Sequence[str]) -> str:
    """Names, of many the first ones."""
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more


def refuse_repetitions(sites: list[Site], bad: Problems) -> None:
    """Tell ``bad`` of names and blocks that two sites of one VRF, or of the global table, have."""
    names: dict[tuple[str, str], Site] = {}
    owners: dict[tuple[str, IPBlock], Site] = {}
    for site in sites:
        other = names.setdefault((site.vrf, site.name), site)
        if other is not site:
            bad.add(
                site.where.problem("a name is there twice", f"another site has this name{other.where.at()}", "name")
            )
        for block in site.blocks:
            owner = owners.setdefault((site.vrf, block), site)
            if owner is not site:
                text = block_text(block)
                # A site that no file has stays as it is: only the other one can be corrected.
                named, other = (site, owner) if site.where.path else (owner, site)
                told = f"{text} belongs to site {other.name!r}{other.where.at()} too"
                if not other.where.path:
                    told += ", which the file does not name: remove it there first"
                elif not site.vrf:
                    told += ": if they are of two routing domains, a column `vrf` says of which"
                bad.add(named.where.problem("a block belongs to two sites", told, "blocks", text))
