"""The geolocation that a site already is, though no file has named it here yet: by what an export says of it, then by
its blocks, then by its fields.
"""

import shlex
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

from geolookup.model.fields import FIELD_NAMES
from geolookup.model.types import Geolocation, IPBlock
from geolookup.sites.site import Problems, Site, blocks_text


class Claims:
    """The free geolocations of a custom layer: those that are not ``taken``, by their number.

    ``takes`` is what a person says of sites by name: the number of each, None for one that is new; ``made`` is what an
    export says of them, the number of each. Those ``named`` here until now are any other site only by their fields:
    that a block passed to it does not make them that. Nor does it make anything of another town a site that is
    ``gone``: others deleted that, and a person wants it anew.
    """

    def __init__(
        self,
        layer: Mapping[int, Geolocation],
        taken: set[int],
        bad: Problems,
        takes: Mapping[str, int | None],
        named: Collection[int],
        made: Mapping[str, int],
        gone: Collection[str] = (),
    ) -> None:
        self._free = {locid: place for locid, place in sorted(layer.items(), reverse=True) if locid not in taken}
        self._bad = bad
        self._takes = takes
        self._named = {*named}
        self._made = made
        self._gone = gone

    def of(self, sites: list[Site]) -> dict[str, int]:
        """The geolocation of each site that is one of them.

        The one that an export wrote as this site, then the one that has exactly its blocks, then the one that has most
        of them, then the one that is equal in all fields that the file says, and shares a block with the site or has
        none: a town has several branches, also if their coordinates are those of the town. If the file does not say all
        fields, one without blocks must have no name either. Of several sites the first gets it; a site that may be
        several is a problem.
        """
        found: dict[str, int] = {}
        for site in sites:
            number = self._takes.get(site.name)
            if number is not None:
                if number in self._free:
                    found[site.name] = number
                    del self._free[number]
                else:
                    told = f"there is no free geolocation {number} for it: `geolookup custom list` shows all"
                    self._bad.add(site.where.problem("no such geolocation", told, "name"))
        left = [site for site in sites if site.name not in self._takes]
        for way in (self._by_export, self._by_all_blocks, self._by_most_blocks, self._by_fields):
            found |= way(left)
            left = [site for site in left if site.name not in found]
        return found

    def _nameless(self) -> list[tuple[int, Geolocation]]:
        return [(locid, place) for locid, place in self._free.items() if locid not in self._named]

    def _by_export(self, sites: list[Site]) -> dict[str, int]:
        found: dict[int, str] = {}
        for site in sites:
            if (locid := self._made.get(site.name)) in self._free:
                found.setdefault(locid, site.name)
        return self._took({name: locid for locid, name in found.items()})

    def _by_all_blocks(self, sites: list[Site]) -> dict[str, int]:
        having: dict[tuple[IPBlock, ...], list[int]] = {}
        for locid, place in self._nameless():
            having.setdefault(tuple(sorted(place.ipblocks)), []).append(locid)
        found = {}
        for site in sites:
            if locids := [each for each in having.get(site.blocks, ()) if site.blocks and self._may_take(site, each)]:
                found[site.name] = self._likest(site, locids)
                del having[site.blocks]
        return self._took(found)

    def _by_most_blocks(self, sites: list[Site]) -> dict[str, int]:
        """Sites that share most blocks with a geolocation first."""
        owners: dict[IPBlock, list[int]] = {}
        for locid, place in self._nameless():
            for block in place.ipblocks:
                owners.setdefault(block, []).append(locid)
        shared = {
            site.name: Counter(locid for block in site.blocks for locid in owners.get(block, ())) for site in sites
        }
        found: dict[str, int] = {}
        for site in sorted(sites, key=lambda site: -max(shared[site.name].values(), default=0)):
            left = (locid for locid in shared[site.name] if locid not in found.values())
            free = {locid: shared[site.name][locid] for locid in left if self._may_take(site, locid)}
            if free:
                most = [locid for locid, number in free.items() if number == max(free.values())]
                equal = [locid for locid in most if _says(site, self._free[locid])]
                if len(most) == 1 or len(equal) == 1:
                    found[site.name] = (equal or most)[0]
                else:
                    self._ask(site, most, "shares as many networks with")
        return self._took(found)

    def _by_fields(self, sites: list[Site]) -> dict[str, int]:
        described: dict[tuple[Any, ...], list[Site]] = {}
        for site in sites:
            described.setdefault(tuple(site.fields[name] for name in FIELD_NAMES), []).append(site)
        found: dict[str, int] = {}
        for claimants in described.values():
            site = claimants[0]
            equal = [locid for locid, place in self._free.items() if locid not in found.values() and _says(site, place)]
            fitting = [locid for locid in equal if self._may_be(claimants, locid)]
            bare = [locid for locid in fitting if not self._free[locid].ipblocks]
            described_bare = [site for site in claimants if not site.blocks]
            if len(fitting) == 1:
                sharing = (each for each in claimants if self._shares(each, fitting[0]))
                found[next(sharing, site).name] = fitting[0]
            elif len(bare) == len(fitting) == len(described_bare) == len(claimants):  # nothing tells them apart
                found |= {site.name: locid for site, locid in zip(claimants, bare, strict=True)}
            elif len(fitting) > 1:
                self._ask(site, fitting, "is equal in all fields to")
            elif others := [locid for locid in equal if not (site.unsaid or locid in self._named)]:
                self._note_others(site, others)
        return self._took(found)

    def _may_be(self, sites: list[Site], locid: int) -> bool:
        if any(self._shares(site, locid) for site in sites):
            return True
        return not (self._free[locid].ipblocks or (sites[0].unsaid and locid in self._named))

    def _may_take(self, site: Site, locid: int) -> bool:
        """False of a site that others deleted and a geolocation of another town: that is somebody else's."""
        has = self._free[locid].fields()
        return site.name not in self._gone or all(has[name] == site.fields[name] for name in ("country", "city"))

    def _shares(self, site: Site, locid: int) -> bool:
        return not {*site.blocks}.isdisjoint(self._free[locid].ipblocks)

    def _note_others(self, site: Site, equal: list[int]) -> None:
        """Note what may be a site of which all networks changed, and is taken for another one."""
        others = ", ".join(f"{locid} ({blocks_text(self._free[locid].ipblocks, 5)})" for locid in equal)
        take = shlex.quote(f"{site.name}={equal[0]}")
        self._bad.notes.append(
            f"{site.name} is a new site, though it is equal in all fields to geolocation {others}: they share "
            f"no network; --take {take} says that it is that one"
        )

    def _likest(self, site: Site, locids: list[int]) -> int:
        """Of geolocations with the same blocks the one with its fields, else the later defined, which wins."""
        return next((locid for locid in locids if _says(site, self._free[locid])), min(locids))

    def _took(self, found: dict[str, int]) -> dict[str, int]:
        for locid in found.values():
            del self._free[locid]
        return found

    def _ask(self, site: Site, locids: list[int], how: str) -> None:
        listed = ", ".join(
            f"{locid} ({blocks_text(self._free[locid].ipblocks, 5) or 'no networks'})"
            for locid in sorted(locids, reverse=True)
        )
        told = (
            f"{site.name!r} {how} {len(locids)} geolocations: {listed}. Which one is it? Say "
            f"--take '{site.name}={max(locids)}', or --take '{site.name}=new'"
        )
        self._bad.add(site.where.problem("fits several geolocations", told, "name", site.name))


def _says(site: Site, place: Geolocation) -> bool:
    """True if a geolocation has all fields that the file says of a site."""
    has = place.fields()
    return all(has[name] == site.fields[name] for name in FIELD_NAMES if name not in site.unsaid)
