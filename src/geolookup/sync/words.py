"""Words of a pull and a push that commands and pages share: counts, the outcome, and the edits that are left over."""

from collections.abc import Mapping, Sequence
from typing import Any

from geolookup.base.text import addresses, percent, plain
from geolookup.base.text import count as count  # handed on: to those who word something
from geolookup.model.continents import move_text
from geolookup.model.precedence import relation
from geolookup.model.reports import Status
from geolookup.model.types import IPBlock
from geolookup.model.winners import Winners
from geolookup.settings.times import in_words, of_day
from geolookup.state.base.clock import age_s
from geolookup.state.edits.outbox.row import PERSON_STATES, OutboxRow
from geolookup.sync.pull.context import PullReport
from geolookup.sync.push.report import PushReport

_LEFT_OVER = ("queued", "unknown", "held", "rejected")


def geolocations(rows: Mapping[str, int]) -> str:
    """The geolocations of a generation; how many of them are custom, if its sources have any."""
    custom = rows.get("custom_geolocations", 0)
    return count(rows.get("geolocations", 0), "geolocation") + (f" ({custom} custom)" if custom else "")


def contents(rows: Mapping[str, int]) -> str:
    """The contents of a generation, given its counts of rows."""
    places = f"{geolocations(rows)}, {count(rows['blocks'], 'block')}"
    if not (networks := rows.get("network_blocks")):
        return places
    of_networks = f"{count(networks, 'block')} of networks"
    return f"{places}, {of_networks}" if rows["geolocations"] or rows["blocks"] else of_networks


def row_changes(difference: Mapping[str, Any] | None) -> list[str]:
    """The rows that a pull added, removed and changed, by their kind; empty if there is nothing to compare with.

    ``difference`` is that of a pull's report: it lacks these counts if nothing was published before.
    """
    if not difference:
        return []
    kinds = {what: difference[what] for what in ("geolocations", "blocks") if what in difference}
    if "networks" in difference:
        kinds["ranges of networks"] = difference["networks"]["ranges"]
    return [f"{what} +{each['added']} -{each['removed']} ~{each['changed']}" for what, each in kinds.items()]


def changes(difference: Mapping[str, Any] | None) -> list[str]:
    """`row_changes`, and for how many addresses the country changed."""
    found = row_changes(difference)
    # Of what was rolled back, and of several changed sources, it is not counted.
    if difference and found and (moved := difference.get("addresses_whose_country_changed")):
        found.append(f"country changed for {v4_and_v6(int(moved['ipv4']), int(moved['ipv6']))}{moved_most(moved)}")
    return found


def moved_most(moved: Mapping[str, Any]) -> str:
    """Between which countries most of these addresses moved, behind a comma; empty if that is not known."""
    most = moved.get("most")
    told = move_text(most["from"], most["to"], most["share"]) if most else ""
    return f", {told}" if told else ""


def v4_and_v6(v4: int, v6: int) -> str:
    """Numbers of addresses of both families."""
    return f"{plain(v4)} IPv4 {'address' if v4 == 1 else 'addresses'} and {plain(v6)} of IPv6"


def not_published(outcome: str) -> str:
    """Why a pull that went well published nothing.

    :raises KeyError: for any other outcome
    """
    return {"unchanged": "nothing new", "rolled-back": "still what was rolled back"}[outcome]


def left_over(report: PushReport) -> dict[str, int]:
    """The numbers of edits that a push left in the outbox, by state: 0 for a state without edits."""
    return {state: getattr(report, state) for state in _LEFT_OVER}


def decided(row: OutboxRow) -> str:
    """The result of a decision about an edit."""
    return f"edit {row.id}: {row.describe()}: {row.state}"


def dropped(row: OutboxRow) -> str:
    """The result of dropping an edit."""
    return f"dropped edit {row.id}: {row.describe()}" + (f"; {row.problem}" if row.problem else "")


def pending(rows: Sequence[OutboxRow], push: str, decide: str) -> str:
    """The number of edits that have not reached the service, and what is next: ``push`` sends them, ``decide`` helps
    with those that wait for a person.
    """
    if not rows:
        return "nothing is pending"
    number, waiting = len(rows), sum(row.state in PERSON_STATES for row in rows)
    text = f"{count(number, 'edit')} pending"
    if waiting < number:
        text += f": {push} sends {'it' if number == 1 else 'them'}"
    if waiting:
        text += f"{'; ' if waiting < number else ': '}{waiting} of them held or rejected: see {decide}"
    return text


def pulled(report: PullReport) -> str:
    """The outcome of a pull."""
    if report.outcome != "published" or report.rows is None:
        return f"{not_published(report.outcome)}: generation {report.generation} goes on serving"
    parts = [published(report.rows, report.custom_places), *_changed(report)]
    return f"published generation {report.generation}: {'; '.join(parts)}"


def published(rows: Mapping[str, int], custom_places: int | None) -> str:
    """The contents of a generation, and the custom places that answer before them, unless its sources brought these."""
    if custom_places in (None, 0, rows.get("custom_geolocations", 0)):
        return contents(rows)
    stay = "stays" if custom_places == 1 else "stay"
    return f"{contents(rows)}; your {count(custom_places, 'custom place')} {stay} above them"


def _changed(report: PullReport) -> list[str]:
    found = changes(report.difference)
    return [", ".join(found)] if found else []


def served_again(generation: int, before: int, again: str, *, lasts: bool) -> str:
    """The result of going back; ``again`` is the command that undoes it. It ``lasts``, but not on a reader."""
    held = "An update that brings back most of what that took away is held, whatever else is in it; to"
    return (
        f"rolled back: generation {generation} answers now. {held if lasts else 'To'} go back to generation {before}: "
        f"{again}"
    )


def pinned(generation: int, unpin: str) -> str:
    """The result of a pin; ``unpin`` ends it."""
    return f"generation {generation} is kept until {unpin}"


def unpinned(generation: int) -> str:
    """The result of ending a pin."""
    return f"generation {generation} is no longer pinned"


def won(block: IPBlock, locid: int | None, found: Winners, names: Mapping[int, str]) -> list[str]:
    """Which addresses of a block another geolocation than ``locid`` wins, and by which blocks; empty if none does."""
    size = block.last - block.first + 1
    others = [(key, number) for key, number in found.items() if key is not None and key[0] != locid]
    if not others:
        return []
    lost = sum(number for _, number in others)
    lines = [f"  of its {addresses(size)}, {plain(lost)} ({percent(lost, size)}) go to other blocks:"]
    for (owner, other), number in sorted(others, key=lambda item: -item[1])[:_MOST_WINNERS]:
        rule = relation(other.last - other.first, block.last - block.first)
        name = f" ({names[owner]})" if owner in names else ""
        lines.append(f"    {addresses(number)} to {owner}{name}: its block {other} is {rule}")
    if len(others) > _MOST_WINNERS:
        lines.append(f"    and {len(others) - _MOST_WINNERS} more blocks")
    return lines


_MOST_WINNERS = 5


def too_old_data(found: Status, limit_s: float | None) -> list[str]:
    """Messages about data too old by the dates in their files; ``limit_s`` is for sources without a limit."""
    old = []
    for source in found.sources:
        limit = limit_s if source.max_data_age_s is None else source.max_data_age_s
        if source.serves and source.dated and limit is not None and (age := age_s(source.dated)) > limit:
            old.append(
                f"the data of {source.name} are {of_day(source.dated)}, {in_words(age)} old, more than max_data_age "
                f"allows ({in_words(limit)}): get a newer file, then `geolookup sync`"
            )
    return old
