"""The history as pages show it: what was done together, what became of it, and the page that undoes it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import urlencode

from geolookup.state.edits.steps import SITES, VRF_PLACE, as_named

#: A line of the history, as `Editor.history` gives it.
Line: TypeAlias = Mapping[str, Any]
#: A part of a site that a line changed, and that others may change again.
_Part: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """The lines of one step, oldest first, and the numbers of the ``sites`` that they are about.

    ``moves`` are the other sites ``to`` or ``from`` which networks of the only one moved, with number and name.
    ``undone`` says of how many of them who undid it, and at which moment; ``undo`` is the address of the page that
    undoes it, empty if there is none; ``since`` is then the line that has to be undone before, None if there is none.
    """

    lines: Sequence[Line]
    sites: Sequence[int]
    moves: Sequence[tuple[str, int, str]]
    undone: Sequence[tuple[int, Mapping[str, str]]]
    undo: str
    since: Line | None


class Past:
    """Lines of the history, oldest first: all, or all about one site.

    ``others`` are lines of the same steps about other sites, and ``called`` the names of sites by now.
    """

    def __init__(self, lines: Sequence[Line], others: Sequence[Line] = (), called: Mapping[int, str] = {}) -> None:
        self._called = called
        #: By step and network the sites that lost it, and that got it.
        self._lost, self._got = ({}, {})  # type: tuple[dict[_Part, int], dict[_Part, int]]
        for line in (*lines, *others):
            for found, one, other in ((self._lost, "before", "after"), (self._got, "after", "before")):
                for ends in _blocks(line[one]) - _blocks(line[other]):
                    found[line["step"], *ends] = line["locid"]
        #: The names that sites had, by their numbers: also of those that are deleted.
        self.names: dict[int, str] = {}
        #: The latest change of each part that stands; and with what undid others, which is in the way of undos alone.
        self._latest: tuple[dict[_Part, Line], dict[_Part, Line]] = {}, {}
        for line in lines:
            self.names |= _names(line, self.names)
            for latest in () if line["undone"] else self._latest[1 if line["undoes"] else 0 :]:
                latest |= dict.fromkeys(_parts(line), line)

    def deeds(self, lines: Sequence[Line]) -> list[Deed]:
        """Some of the lines, oldest first: those of one step together, the newest step first."""
        steps: dict[int, list[Line]] = {}
        for line in lines:
            steps.setdefault(line["step"] or -line["id"], []).append(line)
        return [self._deed(step) for step in reversed(steps.values())]

    def _deed(self, lines: Sequence[Line]) -> Deed:
        sites = [*dict.fromkeys(line["locid"] for line in lines if line["locid"] is not None)]
        gone = [line for line in lines if line["undone"] and "again" not in line["undone"]]
        undone = {(line["undone"]["who"], line["undone"]["at"]): line["undone"] for line in gone}
        of = [{line["locid"] for line in gone if line["undone"] == each} - {None} for each in undone.values()]
        changing = [line for line in lines if not line["undone"] and any(_parts(line))]
        moves = [*dict.fromkeys(move for line in lines for move in self._moves(line))] if len(sites) == 1 else []
        since = [self._since(line) for line in changing] if len(sites) == 1 else []
        blocked = bool(since) and None not in since
        alone = sites[0] if len(sites) == 1 and not moves else None  # a network cannot be of two sites
        undo = undo_of(lines[0], alone) if changing and not blocked else ""
        return Deed(
            lines=lines,
            sites=sites,
            moves=moves,
            undone=[(len(places), each) for places, each in zip(of, undone.values(), strict=True)],
            undo=undo,
            since=since[-1] if blocked else None,
        )

    def _moves(self, line: Line) -> Iterator[tuple[str, int, str]]:
        """Where networks of a line's site went in the same step, and where they came from."""
        before, after = _blocks(line["before"]), _blocks(line["after"])
        for how, found, blocks in (("to", self._got, before - after), ("from", self._lost, after - before)):
            for ends in blocks:
                other = found.get((line["step"], *ends))
                if other is not None and other != line["locid"]:
                    yield how, other, self._called.get(other) or self.names.get(other) or f"site {other}"

    def _since(self, line: Line) -> Line | None:
        """The latest line that changed again all that this one did, or its place, or deleted its site."""
        parts, latest = [*_parts(line)], self._latest[bool(line["undoes"])]
        gone = [("there", place) for what, place, *_ in parts if what != "vrf"]
        found = {
            part: each
            for part in (*parts, *gone)
            if (each := latest.get(part)) and each["id"] > line["id"] and each["step"] != line["step"]
        }
        if any(part in found for part in (*gone, ("place", line["place"]))) or all(part in found for part in parts):
            return max(found.values(), key=lambda each: int(each["id"]))
        return None


def undo_of(line: Line, site: int | None) -> str:
    """The page that undoes the step of a line, or what it did to one site."""
    return f"/custom/undo?{urlencode({'step': line['step'], **({} if site is None else {'site': site})})}"


def _parts(line: Line) -> Iterator[_Part]:
    """The parts of sites that a line changed, each with the number of its site on this machine."""
    before, after, place = line["before"], line["after"], line["place"]
    if line["step"] is None:  # what a push or an update says of it
        return
    if line["what"] == VRF_PLACE:
        yield from {("vrf", side["vrf"], side["name"]) for side in (before, after) if side}
    elif line["what"] == SITES:
        for sides in ((as_named(before.get(name)), as_named(after.get(name))) for name in {**before, **after}):
            if sides[0] != sides[1]:
                yield from {("named", side.locid) for side in sides if side}
    elif all(side is None or "fields" in side for side in (before, after)) and before != after:
        if before is None or after is None:
            yield "there", place
            return
        if before["fields"] != after["fields"]:
            yield "place", place
        for ends in before["blocks"] + after["blocks"]:
            if (ends in before["blocks"]) != (ends in after["blocks"]):
                yield "block", place, *ends


def _blocks(side: Any) -> set[tuple[str, ...]]:
    """The networks of a site as the history has it before or after a line."""
    return {tuple(ends) for ends in side.get("blocks", ())} if isinstance(side, dict) else set()


def _names(line: Line, known: Mapping[int, str]) -> dict[int, str]:
    """The names that a line gives sites; of a site without one that came or went, its city and country."""
    if line["what"] == SITES:
        return {named.locid: name for name, each in line["after"].items() if (named := as_named(each))}
    sides = [side for side in (line["before"], line["after"]) if isinstance(side, dict) and "fields" in side]
    if len(sides) != 1 or line["locid"] in known:
        return {}
    where = ", ".join(filter(None, (sides[0]["fields"].get(name) for name in ("city", "country"))))
    return {line["locid"]: where} if where else {}
