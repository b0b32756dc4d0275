"""The dials of a service, each alone harmless to name: what real services do that an ideal one does not."""

import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any

#: What a dial does, for the table and for whoever reads a failing seed.
MEANINGS = {
    "plain": "stores what it is told, shows it at once; colleagues work on places of their own",
    "normalise": "stores capitals, rounded coordinates, no area codes, other blanks or other names",
    "lost": "some answers to writes are lost, before or after the work was done, or the work is done late",
    "lag": "lists come from a replica that is seconds behind, and so do some looks before a write",
    "reuse": "a number that became free is given again",
    "twice": "some creates are applied twice",
    "lie": "some answers to a create name another number",
    "conflict": "some writes are applied and answered with 409",
    "refuses": "some writes are applied and answered with 422",
    "throttled": "some writes are answered with 429, before or after the work was done",
    "renumbers": "the service moves, and all its geolocations have other numbers then, or each other's",
    "pieces": "a list mixes rows of different moments",
    "colleagues": "colleagues create like places, and change and delete ours",
    "clock": "the wall clock jumps either way",
    "reboot": "the machine starts anew, in the middle of a push too",
    "restore": "a backup of edits.db is put back, by hand or as the message says",
    "empty": "edits.db becomes an empty file, or is gone",
    "row": "something in edits.db is changed",
    "machines": "several machines, each with a person, use one service",
    "copied": "a state is copied to another machine, and both go on",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Dials:
    """How a service behaves. Shares are of requests; ``digits`` None stores coordinates as they come.

    ``squeezed`` takes the blanks out of postal codes, ``short`` cuts those of nine digits to five, ``numbers`` stores
    dmacode and areacode as numbers do, without leading zeros, and ``single`` coordinates in single precision.
    ``ignored`` are fields that it stores always so. ``cap`` is how many geolocations a list has at most, without a
    word, unless more are asked for. ``counts_all`` has it declare the count of all with a filtered list, too.

    ``shares`` has it give a block to several geolocations.

    ``lag_s`` is how far behind lists are, ``late_s`` the most seconds until a lost request is applied.
    """

    capitals: bool = False
    digits: int | None = None
    dropped: tuple[str, ...] = ()
    blanks: bool = False
    names: bool = False
    squeezed: bool = False
    short: bool = False
    numbers: bool = False
    single: bool = False
    cap: int | None = None
    counts_all: bool = False
    ignored: tuple[tuple[str, Any], ...] = ()
    lost: float = 0.0
    late_s: float = 0.0
    lag_s: float = 0.0
    pieces_s: float = 0.0
    reuse: bool = False
    twice: float = 0.0
    lie: float = 0.0
    conflict: float = 0.0
    refuses: float = 0.0
    throttled: float = 0.0
    keys: bool = False
    shares: bool = False

    def quiet(self) -> "Dials":
        """The same service on a good day: what it always does stays, what happens at times does not."""
        return replace(self, lost=0.0, twice=0.0, lie=0.0, conflict=0.0, refuses=0.0, throttled=0.0)

    def stored(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """What the service makes of the eight fields. What it has stored, it stores again as it is."""
        found = dict(fields)
        if self.names:
            found["city"] = _NAMES.get(found["city"].strip().casefold(), found["city"])
        if self.blanks:
            found = {name: " ".join(v.split()) if isinstance(v, str) else v for name, v in found.items()}
        if self.capitals:
            found["city"], found["country"] = found["city"].upper(), found["country"].upper()
        if self.squeezed:
            found["postalcode"] = found["postalcode"].replace(" ", "")
        if self.short:
            found["postalcode"] = found["postalcode"].partition("-")[0]
        if self.numbers:
            found |= {name: found[name].lstrip("0") for name in ("dmacode", "areacode")}
        if self.single:
            for name in ("latitude", "longitude"):
                found[name] = None if found[name] is None else struct.unpack("f", struct.pack("f", found[name]))[0]
        if self.digits is not None:
            for name in ("latitude", "longitude"):
                found[name] = None if found[name] is None else round(found[name], self.digits)
        found |= dict(self.ignored)
        for name in self.dropped:
            found[name] = ""
        return found


_NAMES = {"köln": "Cologne", "muenchen": "Munich"}


def turned(names: frozenset[str], random: Random) -> Dials:
    """A service with these dials turned, by how much being chosen at random."""
    dials = Dials()
    if "normalise" in names:
        forms: list[dict[str, Any]] = [
            {"capitals": True},
            {"digits": random.choice([2, 3, 4])},
            {"dropped": (random.choice(["dmacode", "areacode"]),)},
            {"blanks": True},
            {"names": True},
            {"squeezed": True, "short": True},
            {"numbers": True},
            {"single": True},
        ]
        for form in random.sample(forms, random.choice([1, 1, 2, 3])):
            dials = replace(dials, **form)
    if "lost" in names:
        dials = replace(dials, lost=random.choice([0.05, 0.2, 0.4]), late_s=random.choice([0.0, 20.0]))
    if "lag" in names:
        dials = replace(dials, lag_s=random.choice([2.0, 5.0, 20.0]))
    if "pieces" in names:
        dials = replace(dials, pieces_s=random.choice([2.0, 5.0, 20.0]))
    if "reuse" in names:
        dials = replace(dials, reuse=True)
    for name in ("twice", "lie", "conflict", "refuses", "throttled"):
        if name in names:
            dials = replace(dials, **{name: random.choice([0.1, 0.3])})
    return dials
