"""Generations as ``generations`` writes them, as text and for ``--json``: what is kept, what is held, what differs."""

import shlex
from collections.abc import Mapping
from typing import Any

from geolookup.base.text import fields_text, size
from geolookup.cli import output
from geolookup.cli.data import impact
from geolookup.history.diff import Sides, SourceDifference, totals
from geolookup.history.held import HeldItem
from geolookup.model.types import Geolocation, IPBlock
from geolookup.settings.times import shown
from geolookup.state.base.current import Current
from geolookup.state.generations.cache_compare import RowDifferences
from geolookup.state.publishing.catalogue import KeptGeneration
from geolookup.sync import words

_DIGEST_SHOWN = 16


def held_lines(held: HeldItem, current: Current | None) -> list[str]:
    """The lines about a held list: reasons, differences, and the next steps; ``current`` is what is served."""
    lines = []
    if held.name is None:
        lines.append(_line("held", f"a change of the stack to {', '.join(held.names)}"))
    else:
        record = held.record
        pulled = f"pulled {shown(str(record.get('pulled_at', '?')))} from {record['source']}"
        lines += [_line("held", f"source {held.name}, {pulled}"), _line("content", words.contents(record["rows"]))]
    if current is not None:
        lines.append(_line("served", f"generation {current.generation}: {words.contents(current.published['rows'])}"))
    lines.append(_line("digest", held.digest))
    lines += [_line("why", reason) for reason in held.reasons or ("the reason was not written down",)]
    if changes := words.changes(held.report.get("difference")):
        lines.append(_line("difference", ", ".join(changes)))
    lines += [_line("warning", str(warning)) for warning in held.report.get("warnings", ())]
    lines.append(_line("compare", f"geolookup generations diff served {shlex.quote(held.reference)}"))
    lines.append(_line("publish", f"geolookup sync --accept {held.digest[:_DIGEST_SHOWN]}"))
    lines.append(_line("else", "nothing to do: the next sync that brings something better replaces it"))
    return lines


def held_object(held: HeldItem) -> dict[str, Any]:
    """The same for ``--json``."""
    return {
        "reference": held.reference,
        "source": held.name,
        "stack": list(held.names),
        "digest": held.digest,
        "reasons": list(held.reasons),
        "published": dict(held.record),
        "report": dict(held.report),
    }


def kept_lines(kept: KeptGeneration, document: Mapping[str, Any]) -> list[str]:
    """The lines about a kept generation; ``document`` is its report.json, empty if that cannot be read."""
    marks = [name for name in ("served", "pinned", "packed", "refused") if getattr(kept, name)]
    lines = [_line("generation", f"{kept.number} ({', '.join(marks) or 'kept'})")]
    if kept.problem:
        return [*lines, _line("DAMAGED", kept.problem)]
    if kept.published_at:
        lines.append(_line("served from", shown(kept.published_at)))
    lines += [
        _line("pulled", shown(str(kept.pulled_at or "?"))),
        _line("from", str(kept.source)),
        _line("content", words.contents(kept.rows)),
        _line("digest", str(kept.digest)),
        _line("size", size(kept.bytes)),
    ]
    record = document.get("published", {})
    for part in record.get("stack", ()):
        told = []
        for answers, verb in (("answers", "answers"), ("network_answers", "knows the network of")):
            if part["name"] in record.get(answers, {}):
                v4, v6 = record[answers][part["name"]]
                told.append(f"{verb} {words.v4_and_v6(int(v4), int(v6))}")
        counts = ", ".join(told) or "answers no addresses"
        lines.append(_line("source", f"{part['name']} ({part['kind']}), snapshot {part['snapshot']}, {counts}"))
    report = document.get("report", {})
    if changes := words.changes(report.get("difference")):
        lines.append(_line("difference", f"{', '.join(changes)}, to the one before"))
    return lines + [_line("warning", str(warning)) for warning in report.get("warnings", ())]


def _line(name: str, text: str) -> str:
    return f"{name + ':':<13}{text}"


_NOTHING = {"added": 0, "removed": 0, "changed": 0}


def say_sources(sides: Sides, sources: list[SourceDifference], top: int | None, *, blocks: bool) -> None:
    """Show the changes, source by source. A single source is not named."""
    old, new = sides.stacks()
    if old == new and len(new) == 1 and all(source.change == "changed" for source in sources):
        source = sources[0] if sources else None
        rows = source.rows if source is not None else None
        if rows is not None or source is None or source.networks is None:
            _say_rows(rows or RowDifferences(counts={"geolocations": _NOTHING, "blocks": _NOTHING}), top, blocks=blocks)
        if source is not None:
            _say_networks(source)
        return
    if [name for name in old if name in new] != [name for name in new if name in old]:
        output.done(f"the order of the sources: {', '.join(old)} -> {', '.join(new)}")
    for source in sources:
        if source.change != "changed":
            how = "is new in the stack" if source.change == "joined" else "left the stack"
            counts = f"{words.count(source.geolocations, 'geolocation')}, {words.count(source.blocks, 'block')}"
            output.done(f"source {source.name} {how}: {counts}")
        else:
            output.done(f"source {source.name}:")
            if source.rows is not None:
                _say_rows(source.rows, top, blocks=blocks)
        _say_networks(source)
    if not sources:
        output.done("no row of a source changed")


def _say_networks(source: SourceDifference) -> None:
    if source.networks is not None:
        ranges = source.networks.ranges
        four, six = (sum(source.networks.addresses[family].values()) for family in (4, 6))
        output.done(
            f"ranges of networks: {ranges['added']} added, {ranges['removed']} removed, {ranges['changed']} changed "
            f"({words.v4_and_v6(four, six)})"
        )


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
                "networks": None if each.networks is None else each.networks.as_dict(),
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
