"""``list --fact`` and ``--asn``: the ranges in which facts have values, and the options that say which."""

import difflib
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import click

from geolookup.cli import output
from geolookup.cli.lookup.unsaid import why_none
from geolookup.model.addresses import cidrs, to_text
from geolookup.model.facts import FACT_NAMES, NETWORK_FACTS, PLACE_FACTS, Fact
from geolookup.sources.facts import as_number
from geolookup.sources.places import BadFieldError

if TYPE_CHECKING:
    from geolookup.columns.where import Row, Wanted
    from geolookup.lookup.engine import GeoLookup

_FACTS = {**PLACE_FACTS, **NETWORK_FACTS}
_AT_ONCE = 1 << 12


class _AsNumber(click.ParamType[int]):
    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            number = as_number(str(value))
        except BadFieldError as error:
            self.fail(str(error), param, ctx)
        if not number:
            self.fail("AS 0 stands for none: no address has it", param, ctx)
        return number


class _FactValue(click.ParamType["tuple[str, str | int | bool]"]):
    """A fact with a value, NAME=VALUE; of one that is true or false NAME alone means true."""

    name = "fact"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> "tuple[str, str | int | bool]":
        name, equals, text = map(str.strip, str(value).partition("="))
        fact = _FACTS.get(name)
        if fact is None:
            near = difflib.get_close_matches(name, FACT_NAMES, n=1)
            advice = f"did you mean {near[0]}?" if near else f"there are {', '.join(FACT_NAMES)}"
            self.fail(f"unknown fact {name!r:.40}: {advice}", param, ctx)
        if fact.kind == "boolean":
            return name, click.BOOL.convert(text, param, ctx) if equals else True
        if not text:
            self.fail(f"say which: {name}={_example(fact)}", param, ctx)
        if name == "asn":
            return name, _AsNumber().convert(text, param, ctx)
        return name, click.IntRange(0, fact.most)(text, param, ctx) if fact.most > 0 else text


def _example(fact: Fact) -> str:
    return {"time_zone": "Europe/Paris", "asn": "15169", "accuracy_radius": "50"}.get(fact.name, "VALUE")


def fact_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """``--asn`` and ``--fact``, each of which may be repeated."""
    function = click.option(
        "--fact",
        "facts",
        type=_FactValue(),
        multiple=True,
        metavar="NAME[=VALUE]",
        help="Only addresses of which this is known: is_tor_exit_node, time_zone=Europe/Paris. Repeated for one fact: "
        f"either value; for several: all of them. The facts are {', '.join(FACT_NAMES)}.",
    )(function)
    return click.option(
        "--asn",
        "numbers",
        type=_AsNumber(),
        multiple=True,
        metavar="NUMBER",
        help="Only addresses of this AS (15169, AS15169, 1.10); repeated: of either.",
    )(function)


def values_of(
    numbers: Sequence[int], facts: "Sequence[tuple[str, str | int | bool]]"
) -> "dict[str, list[str | int | bool]]":
    """The values of the two options, by fact."""
    found: dict[str, list[str | int | bool]] = {}
    for name, value in (*(("asn", number) for number in numbers), *facts):
        found.setdefault(name, []).append(value)
    return found


def shown_facts(wanted: "Wanted") -> tuple[str, ...]:
    """The values that ranges are shown with if none are asked for: the facts, and the organisation of an AS."""
    found = list(wanted.facts)
    if "asn" in found and "as_organization" not in found:
        found.insert(found.index("asn") + 1, "as_organization")
    return tuple(found)


def write_ranges(
    geo: "GeoLookup",
    wanted: "Wanted",
    names: tuple[str, ...],
    form: str,
    *,
    networks: bool,
    nothing_fits: str | None,
) -> None:
    """Write the ranges, or networks, that fit, each as soon as it is found; ``nothing_fits`` is said if none does."""
    from geolookup.columns.where import ranges_where  # late: numpy takes longer than a short list

    columns = (*(("network",) if networks else ("first", "last")), *names)
    found = geo.with_snapshot(lambda snapshot: _begun(ranges_where(snapshot, wanted, names)))
    if found is None:
        output.note(f"geolookup: {nothing_fits}{why_none(geo, wanted.facts)}")
    rows = _as_networks(found or ()) if networks else _as_ranges(found or ())
    if form == "csv":
        output.csv_result(columns, rows)
    elif form == "json":
        output.json_results(dict(zip(columns, row, strict=True)) for row in rows)
    elif form == "ndjson":
        for row in rows:
            sys.stdout.write(output.json_line(dict(zip(columns, row, strict=True))) + "\n")
    elif networks and not names:
        for batch in iter(lambda: list(islice(rows, _AT_ONCE)), []):
            sys.stdout.write("".join([f"{network}\n" for (network,) in batch]))
    else:
        with output.table("network" if networks else "range", *names) as write:
            for row in rows:
                ends = row[: 1 if networks else 2]
                write("-".join(ends), *map(output.value_text, row[len(ends) :]))


def _begun(rows: "Iterator[Row]") -> "Iterator[Row] | None":
    """The same rows, of which the first is known to be there; None if there is none."""
    first = next(rows, None)
    return None if first is None else chain((first,), rows)


def _as_ranges(rows: "Iterable[Row]") -> Iterator[tuple[Any, ...]]:
    for family, first, last, values in rows:
        yield to_text(family, first), to_text(family, last), *values


def _as_networks(rows: "Iterable[Row]") -> Iterator[tuple[Any, ...]]:
    for family, first, last, values in rows:
        for at, length in cidrs(family, first, last):
            yield f"{to_text(family, at)}/{length}", *values
