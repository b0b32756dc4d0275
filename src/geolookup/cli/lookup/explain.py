"""``explain``: why an address resolves as it does."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import click

from geolookup.cli import exit_codes, output
from geolookup.cli.options import as_of_option, json_option, vrf_option
from geolookup.model.errors import EditError
from geolookup.model.reports import AnswerSince, Explanation, FactsSince
from geolookup.settings.times import in_words, shown
from geolookup.sync import opening


@click.command()
@click.argument("address")
@as_of_option
@vrf_option
@json_option
def explain(address: str, as_of: str | None, vrf: str | None, as_json: bool) -> int:
    """Say why ADDRESS resolves as it does: every block that covers it, which one wins, and why.

    \b
    It also says since when this is the answer: which generation or edit brought it, and what was
    answered before, as far as generations are kept. Of its network it says which source said each
    fact, which others said something else, and since when all of them are as they are.
    Examples:
      geolookup explain 8.8.8.8
      geolookup explain 8.8.8.8 --as-of yesterday
      geolookup explain 10.1.2.3 --vrf CUST-A
    """
    with opening.open_or_build(as_of=as_of, vrf=vrf) as geo:
        found = geo.explain(address)
    whose = next((item.vrf for item in found.covering if item.vrf), "")
    names = _site_names(found, whose) if any(item.layer == "custom" for item in found.covering) else {}
    output.emit(as_json, lambda: explanation_object(found, names), lambda: _explanation_text(found, names))
    return exit_codes.NOT_COVERED if found.match is None and not found.facts else exit_codes.DONE


def _site_names(found: Explanation, vrf: str) -> dict[int, str]:
    """The names of sites; on a reader of a fleet, which has no edits, that of the answer."""
    from geolookup.sync.opening import edit_or_build  # late: most answers need no edits

    try:
        with edit_or_build() as editor:
            of_vrf = editor.vrf_places(vrf) if vrf else {}
            return {**editor.site_names(), **{place.locid: name for name, place in of_vrf.items()}}
    except EditError:
        return {found.match.locid: found.match.site} if found.match is not None and found.match.site else {}


def explanation_object(found: Explanation, names: Mapping[int, str]) -> dict[str, Any]:
    """The object of ``explain --json``; ``names`` are those of sites."""
    return {
        "ip": found.address,
        "match": None
        if found.match is None
        else {**output.flat_match(found.match), "site": found.match.site, "vrf": found.match.vrf},
        "covering": [
            {
                "locid": item.geolocation.locid,
                "site": names.get(item.geolocation.locid) if item.layer == "custom" else None,
                **item.geolocation.fields(),
                "first": item.block.startip,
                "last": item.block.endip,
                "layer": item.layer,
                "wins": item.wins,
                "reason": item.reason,
                "pending": item.pending,
                "source": item.source,
                "masks": item.masks,
                "vrf": item.vrf or None,
            }
            for item in found.covering
        ],
        "edits": list(found.edits),
        "generation": found.generation,
        "source": found.source,
        "age_s": round(found.age_s, 3),
        "since": None if found.since is None else _since_object(found.since),
        "facts": [
            {
                "name": fact.name,
                "value": fact.value,
                "source": fact.source,
                "others": [{"source": name, "value": value} for name, value in fact.others],
            }
            for fact in found.facts
        ],
        "facts_since": None
        if found.facts_since is None
        else {**asdict(found.facts_since), "age_s": round(found.facts_since.age_s, 3)},
    }


def _since_object(found: AnswerSince) -> dict[str, Any]:
    return {
        "at": found.at,
        "age_s": round(found.age_s, 3),
        "generation": found.generation,
        "edit": found.edit,
        "is_exact": found.is_exact,
        "generation_before": found.generation_before,
        "before": None if found.before is None else output.flat_match(found.before),
    }


def _since_text(found: AnswerSince, what: str) -> str:
    """In words since when; ``what`` is the answer or, beside facts of a network, the place."""
    if found.edit is not None:
        return f"the {what} since {shown(found.at)} ({in_words(found.age_s)} ago), by an edit here: {found.edit}"
    before = "not covered"
    if found.before is not None:
        place = found.before.geolocation
        before = f"{found.before.layer} {place.locid} ({place.place_text()})"
    return f"the {what} {_brought_text(found, before)}"


def _facts_since_text(found: FactsSince, now: Mapping[str, object]) -> str:
    """In words since when a network has had its facts; of those before it names the ones that were others."""
    was = found.before or {}
    others = [name for name in {**was, **now} if was.get(name) != now.get(name)]
    texts = [f"{name} {output.value_text(was[name]) if name in was else 'not known'}" for name in others]
    return f"the network {_brought_text(found, ', '.join(texts) if was else 'nothing known')}"


def _brought_text(found: AnswerSince | FactsSince, before: str) -> str:
    brought = f"since {shown(found.at)} ({in_words(found.age_s)} ago), with generation {found.generation}"
    if found.generation_before is None:
        return f"{brought}, the first one here" if found.is_exact else f"at least {brought}"
    return f"{brought}; in generation {found.generation_before}: {before}"


def _explanation_text(found: Explanation, names: Mapping[int, str]) -> list[str]:
    lines = []
    if found.match is None:
        known = next((item for item in found.covering if item.wins and item.masks), None)
        reason = "no source has a place for it" if known is None else f"{known.source} says it has no location"
        lines.append(f"{found.address}: {reason}")
    else:
        match = found.match
        lines.append(
            f"{found.address}: {match.layer} geolocation {match.geolocation.locid}, {match.first}-{match.last}"
        )
    for item in found.covering:
        place = item.geolocation
        verdict = "wins" if item.wins else "loses"
        what = "no location" if item.masks else f"{item.layer} {place.locid} ({place.place_text()})"
        if item.layer == "custom" and place.locid in names:
            what += f", site {names[place.locid]}"
        whose = "" if item.source in ("service", "custom") else f" of {item.source}"
        whose = f" of the VRF {item.vrf}" if item.vrf else whose
        lines.append(f"  {verdict:<5} {item.block}  {what}{whose}: {item.reason}")
    lines += [f"  pending: {edit}" for edit in found.edits]
    for fact in found.facts:
        others = "".join(f"; {name} says {output.value_text(value)}" for name, value in fact.others)
        lines.append(f"  {fact.name} {output.value_text(fact.value)}, says {fact.source}{others}")
    lines += [] if found.since is None else [_since_text(found.since, "place" if found.facts else "answer")]
    if found.facts_since is not None:
        lines.append(_facts_since_text(found.facts_since, {fact.name: fact.value for fact in found.facts}))
    age = in_words(found.age_s)
    since = f"confirmed {age} ago" if found.confirmed else f"{age} old (nobody confirms these data)"
    lines.append(f"generation {found.generation} from {found.source}, {since}")
    return lines
