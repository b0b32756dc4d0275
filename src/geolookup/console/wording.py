"""Words of the pages, for people who never saw a command: sites by name, changes by what they do, versions.

Where a command says the same to the same people, the words are those of `geolookup.sync.words`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from geolookup.base.text import short, short_v6
from geolookup.lookup.ranges import addresses_of
from geolookup.model.errors import HeldError
from geolookup.model.fields import FIELDS
from geolookup.model.types import Geolocation, IPBlock
from geolookup.sites.changes import Change, Kind
from geolookup.sites.site import block_text
from geolookup.sites.table import SAY_COLUMNS
from geolookup.state.base.current import Current
from geolookup.state.base.parts import is_received
from geolookup.state.editor import Editor
from geolookup.state.edits.layer import Laid
from geolookup.state.edits.outbox.operations import Operation
from geolookup.state.edits.outbox.row import PERSON_STATES, OutboxRow, State
from geolookup.state.edits.steps import SITES, VRF_PLACE, as_named
from geolookup.sync import words
from geolookup.sync.belonging import SOURCES
from geolookup.sync.pull.context import PullReport
from geolookup.sync.push.report import PushReport

#: A change of a site by its state.
STATES: Mapping[str, str] = {
    State.QUEUED: "to be sent",
    State.SENDING: "being sent",
    State.UNKNOWN: "sent, no answer yet",
    State.DONE: "sent",
    State.REJECTED: "refused",
    State.HELD: "needs your decision",
    State.DROPPED: "given up",
}

#: The same after a push, with a number.
_LEFT = {State.QUEUED: "still to be sent", State.UNKNOWN: "without an answer", State.HELD: "for you to decide",
         State.REJECTED: "refused"}  # fmt: skip
#: A change of a site by its kind.
_EDITS: Mapping[str, str] = {
    Operation.CREATE: "create {site}",
    Operation.UPDATE: "change the place of {site}",
    Operation.DELETE: "delete {site}",
    Operation.ADD_BLOCK: "add {block} to {site}",
    Operation.REPLACE_BLOCK: "replace {block} of {site} by {new_block}",
    Operation.REMOVE_BLOCK: "remove {block} from {site}",
    Operation.CLEAR_BLOCKS: "remove all networks of {site}",
}
#: What becomes of a site if such a change is taken back before it is sent.
_TAKEN_BACK: Mapping[str, str] = {
    Operation.CREATE: "delete {site}, which was not sent yet",
    Operation.UPDATE: "put back the place that {site} had",
    Operation.DELETE: "keep {site}",
    Operation.ADD_BLOCK: "remove {block} from {site}",
    Operation.REPLACE_BLOCK: "put back {block} of {site} in place of {new_block}",
    Operation.REMOVE_BLOCK: "put back {block} of {site}",
    Operation.CLEAR_BLOCKS: "put back all networks of {site}",
}

#: The lines of the history whose word says little to those who never saw a command.
_DONE: Mapping[str, str] = {
    Operation.CREATE: "site created",
    Operation.UPDATE: "place changed",
    Operation.DELETE: "site deleted",
    Operation.ADD_BLOCK: "network added",
    Operation.REPLACE_BLOCK: "network replaced",
    Operation.REMOVE_BLOCK: "network removed",
    Operation.CLEAR_BLOCKS: "all networks removed",
    SITES: "named",
    "take_back": "change taken back",
    "pull": "update",
    "push": "changes sent",
    "accept": "published by a person",
    "rollback": "rolled back",
    SOURCES: "sources changed",
}

#: The lines about one version.
_OF_VERSIONS = ("pull", "accept", "rollback", "pin", "unpin")

#: Fields by their words.
_LABELS = {**{field.name: field.label for field in FIELDS}, "blocks": "networks", "time_zone": "time zone"}
#: In place of cities to pick.
NO_CITY = (
    "No source has coordinates of a city that begins so. Most write names in English: Munich, not München. "
    "Or type the place by hand."
)

#: Why an update published nothing, by its outcome.
_NOT_PUBLISHED = {"unchanged": "Nothing new", "rolled-back": "Still what was rolled back"}

#: The outcome of one source.
_OUTCOMES = {"rolled-back": "not published, since it has what was rolled back here: see Versions",
             "held": "not published: see Versions", "unchanged": "nothing new", "published": "new data"}  # fmt: skip
_TO_PUBLISH = "; to publish it after all: "

#: Before the commands that decide, in the problem of a change: its page has buttons for them.
_COMMANDS = "; `geolookup outbox "
#: Before the reasons, in the message of an update that was held; what to do follows them.
_GOES_ON = " goes on"
#: Blocks that came or went of which a line of the history names each.
_MOST_BLOCKS = 5
#: Names of sites that a line of the history has.
_MOST_NAMES = 20
#: Fields that the text of a place may not have.
_BESIDE_PLACE = ("latitude", "longitude", "dmacode", "areacode")


def sentence(text: str) -> str:
    """A text with a capital at its beginning, and a full stop at its end."""
    return text[:1].upper() + text[1:].rstrip(".") + "."


def state(text: str) -> str:
    """The state of a change."""
    return STATES.get(text, text)


def edit(row: OutboxRow, names: Mapping[int, str], told: Mapping[str, str] = _EDITS) -> str:
    """A change in words, as they are ``told``; ``names`` are those of the sites by their number."""
    blocks = {name: block_text(IPBlock.from_ends(*ends)) for name, ends in row.payload.items() if name != "fields"}
    return told[row.operation].format(site=names.get(row.locid) or f"site {row.locid}", **blocks)


def step(change: Change) -> str:
    """A step of a plan: a site that has a name is called by it alone."""
    if change.edit is not None:
        return edit(change.edit, {change.edit.locid: change.site or ""}, _TAKEN_BACK)
    if change.kind is Kind.CLAIM and change.was is None:
        return f"give a site that is there already, and has no name, the name {change.site}"
    named = change if change.site is None else replace(change, locid=None)
    return named.describe().split(" ", 1)[1]  # without the sign by which a terminal shows what comes and goes


def again(name: str, before: Geolocation | None, after: Geolocation | None, *, done: bool = False) -> list[str]:
    """A site as an undo leaves it: sentences without full stops. Before it is ``done``, with the site as it is now."""
    if before is None or after is None:
        return [f"{name} is gone again" if after is None else f"{name} is there again: {after.place_text()}"]
    sides: list[tuple[Any, Any, str]] = [(before.place_text(), after.place_text(), f"{name} is in")]
    was, fields = before.fields(), after.fields()
    sides += [(was[key], fields[key], f"{label(key)} of {name}:") for key in _BESIDE_PLACE if was[key] != fields[key]]
    told = [
        f"{begins} {value or '-'} again" + ("" if done else f" (now: {now or '-'})")
        for now, value, begins in (sides[:1] if sides[0][0] != sides[0][1] else sides[1:])  # a place has coordinates
    ]
    came, went = (
        [block for block in one.ipblocks if block not in other.ipblocks]
        for one, other in ((after, before), (before, after))
    )
    told += [f"{name} answers for {listed(came)} again"] if came else []
    return [*told, *([f"{name} answers no more for {listed(went)}"] if went else [])]


def listed(blocks: Sequence[IPBlock]) -> str:
    """Some blocks by name, and the number of the others."""
    return some([*map(block_text, blocks)], _MOST_BLOCKS, what="network")


def some(texts: Iterable[str], most: int = 20, *, between: str = ", ", what: str = "") -> str:
    """The first of some texts, and the count of the others."""
    texts = list(texts)
    left = len(texts) - most
    kind = f" {what}{'' if left == 1 else 's'}" if what else ""
    return between.join(texts[:most]) + (f" and {left:,} more{kind}" if left > 0 else "")


def why(text: str | None) -> str:
    """What stands in the way of a change, without the commands that decide."""
    return (text or "").split(_COMMANDS)[0]


def did(line: Mapping[str, Any]) -> str:
    """The word of a line of the history."""
    what = str(line["what"])
    if line["undoes"]:  # by one word, whatever it takes to undo it
        if line["what"] == SITES or None not in (line["before"], line["after"]):
            return "undone"
        return f"undone: the site is {'gone' if line['after'] is None else 'there'} again"
    if (
        what == SITES
        and len({frozenset(name for name, of in line[side].items() if of) for side in ("before", "after")}) == 1
    ):
        what = "time zone changed"
    if what == VRF_PLACE:
        what = (
            Operation.CREATE
            if line["before"] is None
            else Operation.DELETE
            if line["after"] is None
            else "site changed"
        )
    return _DONE.get(what, what.replace("_", " "))


def summed(lines: Sequence[Mapping[str, Any]]) -> str:
    """A step about several sites: how often it did each thing."""
    found = Counter(did(line) for line in lines if line["what"] != SITES)
    return ", ".join(f"{number:,} × {what}" if number > 1 else what for what, number in found.items()) or _DONE[SITES]


def outcome(line: Mapping[str, Any]) -> str:
    """The outcome of a line of the history: a change is saved here at once, whatever becomes of it at a service."""
    text = str(line["outcome"])
    if line["undone"]:
        return f"undone by {line['undone']['who']}"
    if line["undoes"]:
        return f"undoes a change by {line['undoes']['who']}"
    if reasons := held_for(line):
        return f"not published, held for a person: {reasons}"
    if line["what"] == "pull" and text == "rolled-back":
        return "not published: it is what was rolled back"
    return (
        "saved"
        if text == State.QUEUED or line["what"] in (SITES, "take_back", Operation.DELETE)
        else text
        if text == State.DONE
        else state(text)
    )


def held_for(line: Mapping[str, Any]) -> str:
    """Why an update published nothing, by its line of the history; empty for other lines."""
    error, _, text = str(line["outcome"]).partition(": ")
    if error != HeldError.__name__:
        return ""
    return reasons(text)


def reasons(text: str) -> str:
    """The reasons in the message of an update that was held, without the commands that decide."""
    told = text.partition(_GOES_ON)[2].partition(": ")[2] or text.removeprefix("held: ")
    return reason(told.partition(". Look at it: ")[0])


def reason(text: str) -> str:
    """A reason to hold an update, or several, with the nouns of the pages."""
    return text.replace("geolocations: ", "places: ").replace("blocks: ", "networks: ")


def answered(blocks: Sequence[IPBlock], name: str, layer: Sequence[Laid] = (), every: int = 0) -> str:
    """The sentence about which addresses of given blocks a site answers for, beside the sites of the ``layer``.

    ``every`` is the number of all its networks, if it has these besides others.
    """
    more = every > len(blocks)
    v4, v6 = addresses_of(blocks).values()
    counted = " and ".join(
        [
            *([f"{v4:,} {'more ' if more else ''}{'address' if v4 == 1 else 'addresses'}"] if v4 else []),
            *([f"{short_v6(v6)} of IPv6"] if v6 else []),
        ]
    )
    inside = (each for laid in layer for each in laid.place.ipblocks if each not in blocks)
    within = any(
        each.family == of.family and of.first <= each.first <= each.last <= of.last for each in inside for of in blocks
    )
    others = "; but more exact networks of your sites keep their answers" if within else ""
    return (
        f"{name} now answers for {counted}: {listed(blocks)}{f' ({every:,} networks in all)' if more else ''}{others}"
    )


def unread(error: str) -> str:
    """The error of a sheet that could not be read: a page has no options to name columns by."""
    return error.replace("holds the blocks of", "holds the networks of").replace(
        SAY_COLUMNS,
        "Its first line must name the columns: name,country,city,networks. "
        "A bare list of addresses can be pasted into the form for a new site",
    )


def holds(rows: Mapping[str, int] | None) -> str:
    """What a version has, given its counts of rows; empty if they are not known."""
    if not rows:
        return ""
    networks = rows.get("network_blocks", 0)
    counted = (("geolocations", "place"), ("blocks", "network"))
    found = [f"{short(rows[name])} {what}{'' if rows[name] == 1 else 's'}" for name, what in counted]
    if own := rows.get("custom_geolocations", 0):
        found[0] += f" ({short(own)} of your own)"
    return ", ".join([*found, *([f"{short(networks)} with who runs them"] if networks else [])])


def saved(told: str, editor: Editor) -> str:
    """What was done, and what is left to send, if anything is sent at all."""
    told, rows = sentence(told), editor.pending()
    if not rows:
        return told
    waiting = sum(row.state in PERSON_STATES for row in rows)
    decide = f"; {waiting} of them {'needs' if waiting == 1 else 'need'} your decision" if waiting else ""
    return told + f" {words.count(len(rows), 'change')} to send{decide}: see Changes to send."  # which may be HTML


def updated(report: PullReport) -> str:
    """The outcome of an update."""
    if report.outcome != "published":
        return f"{_NOT_PUBLISHED[report.outcome]}: version {report.generation} goes on answering"
    told = [f"Version {report.generation} is published: {holds(report.rows)}", *_rows(report.difference)]
    if report.custom_places:
        told.append(f"{words.count(report.custom_places, 'site')} of your own answer before them")
    return "; ".join(told)


def pulled(source: Mapping[str, Any]) -> str:
    """The outcome of one source of an update."""
    outcome = str(source.get("outcome") or "")
    return str(source.get("problem") or _OUTCOMES.get(outcome, outcome))


def without_command(warning: str) -> str:
    """A warning of an update without the command that decides: the page Versions has a button for it."""
    return warning.split(_TO_PUBLISH)[0]


def brought(difference: Mapping[str, Any] | None, rows: Mapping[str, int] | None) -> list[str]:
    """The changes of a version in words: rows, and the addresses whose country changed; ``rows`` are its counts."""
    found = _rows(difference)
    if moved := (difference or {}).get("addresses_whose_country_changed"):
        v4, v6 = int(moved["ipv4"]), int(moved["ipv6"])
        if v4 or v6:
            of = f" ({short(int(rows['addresses_v4']))} have an answer now)" if rows and "addresses_v4" in rows else ""
            told = f"{short(v4)} IPv4 addresses{of} and {short_v6(v6)} of IPv6"
            found.insert(0, f"another country, or none before or after, for {told}{words.moved_most(moved)}")
    return found


def _rows(difference: Mapping[str, Any] | None) -> list[str]:
    """The rows that an update added, removed and changed, if there is something to compare with."""
    counts = {what: (difference or {}).get(name) for what, name in (("places", "geolocations"), ("networks", "blocks"))}
    return [
        f"{what}: {', '.join(f'{short(each[how])} {how}' for how in ('added', 'removed', 'changed'))}"
        for what, each in counts.items()
        if each
    ]


def rolled_back(published: Current, before: int) -> str:
    """The result of a rollback."""
    number = published.generation
    if number > before or is_received(published.published):
        return f"Version {number} answers now."
    return (
        f"Rolled back: version {number} answers now. It lasts: an update that brings back most of what version "
        f"{before} had changed is not published, but asks you first."
    )


def left(report: PushReport) -> str:
    """The changes that a push left."""
    found = (f"{number} {_LEFT[State(name)]}" for name, number in words.left_over(report).items() if number)
    return ", ".join(found) or "nothing is left over"


def label(name: str) -> str:
    """A field of a site by the words of the forms."""
    return _LABELS.get(name, name)


def dated(day: str | None, kind: str = "") -> str:
    """The day that data are of, given it or a moment in ISO 8601; ``kind`` is that of their source."""
    return f"data of {day[:10]}" if day else f"date not given by the {'service' if kind == 'service' else 'file'}"


def changed(line: Mapping[str, Any]) -> str:
    """The change that a line of the history is about: fields before and after, blocks that came and went."""
    if line["what"] == SITES and isinstance(line["before"], dict) and isinstance(line["after"], dict):
        return _renamed(line["before"], line["after"])
    if line["what"] in _OF_VERSIONS:
        return _versions(line["before"] or {}, line["after"] or {})
    if line["what"] == SOURCES:
        return " → ".join(", ".join(line[side][SOURCES]) or "none" for side in ("before", "after"))
    sides = [
        line[name] if isinstance(line[name], dict) and "fields" in line[name] else None for name in ("before", "after")
    ]
    before, after = sides
    if after is None:
        return ""
    before = before or {**after, "blocks": []}  # of a new site its networks
    told = [
        f"{name}: {before['fields'].get(name) or '-'} → {value or '-'}"
        for name, value in after["fields"].items()
        if before["fields"].get(name) != value
    ]
    came, went = (
        [each for each in one["blocks"] if each not in other["blocks"]]
        for one, other in ((after, before), (before, after))
    )
    if before.get("time_zone") != after.get("time_zone"):
        told.append(f"time zone: {before['time_zone'] or '-'} → {after['time_zone'] or '-'}")
    for sign, many in (("+", came), ("−", went)):
        told += [f"{sign}{block_text(IPBlock.from_ends(*each))}" for each in many[:_MOST_BLOCKS]]
        told += [f"and {len(many) - _MOST_BLOCKS} more"] if len(many) > _MOST_BLOCKS else []
    return "; ".join(told)


def _versions(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """The version that was published, or left for another one, and why."""
    numbers = [str(each["generation"]) for each in (before, after) if each.get("generation")]
    told = f"version {' → '.join(numbers)}" if numbers else ""
    return ": ".join(each for each in (told, str(after.get("reason", ""))) if each)


def _renamed(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """The names that sites got and lost, and their time zones."""
    was = {named.locid: (name, named.time_zone) for name, each in before.items() if (named := as_named(each))}
    told = []
    for name, each in after.items():
        if (named := as_named(each)) is None:
            continue
        old, zone = was.pop(named.locid, ("", ""))
        told += [f"{old} → {name}" if old else name] if old != name else []
        if zone != named.time_zone:
            told.append(f"time zone of {name}: {zone or '-'} → {named.time_zone or '-'}")
    told += [f"−{name}" for name, _ in was.values()]
    more = [f"and {len(told) - _MOST_NAMES} more"] if len(told) > _MOST_NAMES else []
    return "; ".join([*told[:_MOST_NAMES], *more])
