"""How ``generations diff`` says what changed in each source: as text, and for ``--json``."""

from typing import Any

from geolookup import words
from geolookup.base.text import fields_text
from geolookup.cli import output
from geolookup.cli.data import impact
from geolookup.history.diff import Sides, SourceDifference, totals
from geolookup.model.types import Geolocation, IPBlock
from geolookup.state.generations.cache_compare import RowDifferences

_NOTHING = {"added": 0, "removed": 0, "changed": 0}


def say_sources(sides: Sides, sources: list[SourceDifference], top: int | None, *, blocks: bool) -> None:
    """What changed, source by source. A single source is not named."""
    old, new = sides.stacks()
    if old == new and len(new) == 1:
        rows = sources[0].rows if sources else None
        _say_rows(rows or RowDifferences(counts={"geolocations": _NOTHING, "blocks": _NOTHING}), top, blocks=blocks)
        return
    if [name for name in old if name in new] != [name for name in new if name in old]:
        output.done(f"the order of the sources: {', '.join(old)} -> {', '.join(new)}")
    for source in sources:
        if source.rows is None:
            how = "is new in the stack" if source.change == "joined" else "left the stack"
            counts = f"{words.count(source.geolocations, 'geolocation')}, {words.count(source.blocks, 'block')}"
            output.done(f"source {source.name} {how}: {counts}")
        else:
            output.done(f"source {source.name}:")
            _say_rows(source.rows, top, blocks=blocks)
    if not sources:
        output.done("no row of a source changed")


def _say_rows(rows: RowDifferences, top: int | None, *, blocks: bool) -> None:
    for what in ("geolocations", "blocks"):
        counts = rows.counts[what]
        renumbered = f", {rows.renumbered_count} renumbered" if rows.renumbered_count and what == "geolocations" else ""
        output.done(
            f"{what}: {counts['added']} added, {counts['removed']} removed, {counts['changed']} changed{renumbered}"
        )
        if what == "blocks":
            break
        for mark, places, count in (("+", rows.added, counts["added"]), ("-", rows.removed, counts["removed"])):
            for place in places:
                output.row(f"  {mark} {place.locid}", _described(place))
            impact.say_rest(count, top)
        for each in rows.changed:
            parts = [f"{name} {before!r} -> {after!r}" for name, (before, after) in each.fields().items()]
            if each.blocks_added or each.blocks_removed:
                parts.append(f"blocks +{each.blocks_added} -{each.blocks_removed}")
            output.row(f"  ~ {each.after.locid}", ", ".join(parts))
        impact.say_rest(counts["changed"], top)
        for was, place in rows.renumbered:
            output.row(f"  ~ {was} -> {place.locid}", f"another number: {_described(place)}")
        impact.say_rest(rows.renumbered_count, top)
    for mark, ranges in (("+", rows.blocks_added), ("-", rows.blocks_removed)):
        for locid, block in ranges if blocks else ():
            output.row(f"  {mark} {block}", f"of {locid}" if locid else "known to have no location")


def _described(place: Geolocation) -> str:
    return fields_text(place.fields()) or "-"


def sources_object(sides: Sides, sources: list[SourceDifference], *, blocks: bool) -> dict[str, Any]:
    """The same for ``--json``: counts of all sources and of each, and rows that name their source."""
    old, new = sides.stacks()
    answer: dict[str, Any] = {
        "stack": {"from": old, "to": new},
        "counts": totals(sources),
        "sources": [
            {
                "name": each.name,
                "kind": each.kind,
                "change": each.change,
                "counts": totals([each]),
                "renumbered": 0 if each.rows is None else each.rows.renumbered_count,
            }
            for each in sources
        ],
        "geolocations": {how: [] for how in ("added", "removed", "changed", "renumbered")},
    }
    if blocks:
        answer["blocks"] = {"added": [], "removed": []}
    for each in sources:
        if each.rows is not None:
            _add_rows(answer, each.name, each.rows, blocks=blocks)
    return answer


def _add_rows(answer: dict[str, Any], source: str, rows: RowDifferences, *, blocks: bool) -> None:
    def place(found: Geolocation) -> dict[str, Any]:
        return {"source": source, "locid": found.locid, **found.fields()}

    def block(locid: int, found: IPBlock) -> dict[str, Any]:
        return {"source": source, "locid": locid, "startip": found.startip, "endip": found.endip}

    lists = answer["geolocations"]
    lists["added"] += map(place, rows.added)
    lists["removed"] += map(place, rows.removed)
    lists["changed"] += [
        {
            "source": source,
            "locid": each.after.locid,
            "fields": {name: {"before": came, "after": went} for name, (came, went) in each.fields().items()},
            "blocks": {"added": each.blocks_added, "removed": each.blocks_removed},
        }
        for each in rows.changed
    ]
    lists["renumbered"] += [{**place(found), "was": was} for was, found in rows.renumbered]
    if blocks:
        answer["blocks"]["added"] += [block(*each) for each in rows.blocks_added]
        answer["blocks"]["removed"] += [block(*each) for each in rows.blocks_removed]
