"""Changed answers, as the command line shows them: counts by country, and the addresses of a file."""

from typing import Any

import click

from geolookup.base.text import plain
from geolookup.cli import output
from geolookup.cli.inputs import Tally, read_addresses
from geolookup.history.impact import ChangedAnswer, Comparison, Impact
from geolookup.lookup.asked import read_field
from geolookup.model.errors import InvalidAddressError
from geolookup.model.types import Match
from geolookup.sync import words

addresses_option = click.option(
    "--addresses",
    metavar="FILE",
    help="Show which addresses in FILE (one per line; - is standard input) get another answer.",
)


def say_impact(found: Impact, top: int | None) -> None:
    """The counts as text, at most ``top`` pairs of countries."""
    v4, v6 = found.totals()
    rows = found.rows()
    output.done(f"addresses whose answer differs: {plain(v4)} IPv4, {plain(v6)} IPv6{':' if rows else ''}")
    for came, went, row_v4, row_v6 in rows[:top]:
        output.row(f"  {_country(came)} -> {_country(went)}", f"{plain(row_v4)} IPv4", f"{plain(row_v6)} IPv6")
    say_rest(len(rows), top)


def say_rest(count: int, top: int | None) -> None:
    """Say that there are more rows than were shown."""
    if top is not None and count > top:
        output.done(f"  and {count - top} more: --top 0 shows all")


def _country(code: str | None) -> str:
    return "(not covered)" if code is None else code or "(no country)"


def changed_of_file(comparison: Comparison, name: str, tally: Tally) -> tuple[list[ChangedAnswer], int]:
    """The addresses of a file whose answer differs, and how many addresses it has; malformed ones are named."""
    changed = []
    asked = 0
    for where, text in read_addresses(name):
        try:
            addresses = read_field(text)
        except InvalidAddressError as error:
            tally.bad(where, str(error))
            continue
        for address in addresses:
            asked += 1
            if (found := comparison.answer(address)) is not None:
                changed.append(found)
    tally.say_rest()
    return changed, asked


def say_changed(changed: list[ChangedAnswer], asked: int) -> None:
    """Those addresses as text, each with its answers before and after."""
    output.done(f"of {words.count(asked, 'address', 'addresses')}, {len(changed)} change{':' if changed else ''}")
    for each in changed:
        output.row(f"  {each.address}", _answer(each.before), "->", _answer(each.after))


def changed_objects(changed: list[ChangedAnswer], asked: int) -> dict[str, Any]:
    """The same for ``--json``."""
    return {
        "asked": asked,
        "changed": [
            {
                "ip": each.address,
                "before": None if each.before is None else output.flat_match(each.before),
                "after": None if each.after is None else output.flat_match(each.after),
            }
            for each in changed
        ],
    }


def _answer(match: Match | None) -> str:
    if match is None:
        return "not covered"
    place = match.geolocation
    return f"{place.place_text()} ({match.layer} {place.locid})"
