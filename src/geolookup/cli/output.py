"""Results, written to standard output, and everything else, written to standard error."""

import contextlib
import csv
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TextIO

import click
import msgspec

from geolookup.base.text import harmless, network_text, shown_degrees
from geolookup.cli import interrupt, streams
from geolookup.cli.streams import (
    harmless_lines,
    malformed_line,
    match_line,
    not_covered_line,
    shows_networks,
)
from geolookup.model.fields import DEGREES
from geolookup.model.types import FLAT_NAMES, Match, flat_not_covered


class Write(Protocol):
    """Writes one answer: the address as asked for, its match or None, what is wrong with it or None.

    For a part of a range, ``address`` is the range.
    """

    def __call__(
        self, address: str, match: Match | None, error: str | None, /, part: "RangePart | None" = None
    ) -> None: ...


if TYPE_CHECKING:
    from geolookup.lookup.network import Network
    from geolookup.lookup.ranges import RangePart
    from geolookup.lookup.record import Record

#: How many rows of a table are laid out together on a terminal.
_LAID_OUT = 500
#: A word of a table that is longer may be broken to fit the terminal: a URL, or a path.
_LONG_WORD = 24
#: What the object and the row of a part of a range have more than those of an address.
_PART_NAMES = ("addresses", "share")
#: A larger number of addresses is written as a power.
_MAX_PLAIN_COUNT = 10**12
_SPREADSHEET_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def done(text: str, before: str = "", style: str = "bold") -> None:
    """A result, on a line of its own. The text may hold data: it is made harmless for a terminal, line feeds too.

    ``before`` is written before it, in a style if colours are wanted.
    """
    sys.stdout.write(streams.painted(before, style) + harmless(text, 10_000) + "\n")


def lines(texts: Iterable[str]) -> None:
    """Results, each on a line of its own, as `done` writes them."""
    for text in texts:
        done(text)


def content(text: str) -> None:
    """The text of a file for a person to read: its lines stay, and are harmless for a terminal."""
    sys.stdout.write(harmless_lines(text) + "\n")


@contextlib.contextmanager
def table(*names: str) -> Iterator[Callable[..., None]]:
    """A writer of rows, a call each: on a terminal a table with these names above it, else lines as `row` writes them.

    On a terminal rows are laid out some hundreds at a time, so that a list of any length needs constant memory.
    """
    if not sys.stdout.isatty():
        yield row
        return
    waiting: list[tuple[str, ...]] = []

    def add(*cells: str) -> None:
        waiting.append(cells)
        if len(waiting) == _LAID_OUT:
            _write_table(names, waiting)
            waiting.clear()

    yield add
    _write_table(names, waiting)


def _write_table(names: Sequence[str], rows: list[tuple[str, ...]]) -> None:
    if not rows:
        return
    from rich.console import Console  # late: only a terminal needs it
    from rich.table import Table
    from rich.text import Text

    wanted = streams.colour_is_wanted()
    # What rich finds out for itself is whether it is a terminal: that, and how many colours, is decided here.
    console = Console(
        file=sys.stdout, color_system="standard" if wanted else None, no_color=not wanted, highlight=False
    )
    if _least_width(names, rows) > console.width:
        for cells in rows:
            click.echo("  ".join(harmless(cell, 10_000) for cell in cells if cell))
        return
    drawn = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in names:
        drawn.add_column(name, overflow="fold")
    for cells in rows:
        drawn.add_row(*(Text(harmless(cell, 10_000)) for cell in cells))
    console.print(drawn)


def _least_width(names: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    """The columns of a terminal that a table needs if it is to break no word but the longest."""
    longest = [
        max((len(word) for cell in column for word in cell.split()), default=0)
        for column in zip(names, *rows, strict=True)
    ]
    return sum(min(length, _LONG_WORD) for length in longest) + 2 * (len(names) - 1)


def row(*cells: str) -> None:
    """A result of several cells on one line, separated by tabs."""
    click.echo("\t".join(harmless(cell, 10_000) for cell in cells))


def note(text: str) -> None:
    """Anything but a result: progress, warnings."""
    streams.note(text)


def warn(text: str) -> None:
    """A possible problem; the result is still right."""
    streams.note(text, "geolookup: warning: ", "yellow")


def fail(text: str) -> None:
    """An error that does not end the command by itself."""
    streams.fail(text)


def json_line(value: Any) -> str:
    """One line of JSON. Whole numbers of any size are written as they are; what is not printable is escaped."""
    text = msgspec.json.encode(value).decode("utf-8")
    return text if text.isprintable() else "".join(map(_escaped, text))


def json_result(value: Any) -> None:
    """A result for programs, indented for people."""
    text = msgspec.json.format(json_line(value), indent=2)
    sys.stdout.write(f"{text}\n")


def json_results(values: Iterable[Any]) -> None:
    """Results for programs, one array of any length in memory that does not grow: an item a line."""
    before = "[\n"
    for value in values:
        sys.stdout.write(before + json_line(value))
        before = ",\n"
    sys.stdout.write("[]\n" if before == "[\n" else "\n]\n")


def emit(as_json: bool, value: Any, text: str | Iterable[str] | Callable[[], str | Iterable[str] | None]) -> None:
    """A result: one JSON text with ``--json``, else words, or lines of them.

    ``value`` may be a function that makes it, and ``text`` one that makes or writes it; only the wanted one is called.
    """
    if as_json:
        json_result(value() if callable(value) else value)
    elif (words := text() if callable(text) else text) is not None:
        lines([words] if isinstance(words, str) else words)


def _escaped(character: str) -> str:
    """A character of JSON text; one that a terminal might obey as the escape that stands for it (RFC 8259, 7)."""
    if character.isprintable():
        return character
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[at] << 8 | units[at + 1]:04x}" for at in range(0, len(units), 2))


def _cell(value: Any) -> Any:
    """A CSV cell: on one line, and nothing that a spreadsheet takes for a formula. Numbers stay numbers."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        value = harmless(value, 1 << 20)
        return f"'{value}" if value.startswith(_SPREADSHEET_FORMULA) else value
    return value


def csv_result(header: Iterable[str], rows: Iterable[Iterable[Any]], out: "TextIO | None" = None) -> None:
    """A result for spreadsheets: a line of names, and the rows; to standard output, or to a text of its own."""
    writer = csv.writer(out or sys.stdout, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(map(_cell, row) for row in rows)


@contextlib.contextmanager
def answers(
    form: str,
    only: Sequence[str] | None = None,
    *,
    ranges: bool = False,
    facts: Sequence[str] = (),
    record_of: "Callable[[str], Record | None] | None" = None,
    network_of: "Callable[[str], Network | None] | None" = None,
    words_of: "Callable[[RangePart], str] | None" = None,
) -> Iterator[Write]:
    """A writer for answers in one of the formats, one call an address; an empty one stands for a blank line.

    It writes as it goes, so a stream of any length needs constant memory. ``only`` are the members that are written,
    all of them if it is None; as text they are values, separated by tabs. With ``ranges``, CSV has columns for the
    sizes of their parts; without ``only`` it has columns for these ``facts`` of networks. ``record_of`` gives the
    record of an address: paths in ``only`` lead into it, and without ``only`` it is written whole. ``network_of`` gives
    its network, whose typed facts are members then: those of a part are its first address's. ``words_of`` has the
    words for the networks of a part.
    """
    from geolookup.lookup.members import more_of  # late: most commands answer for no address
    from geolookup.lookup.record import leaves

    out = sys.stdout
    with_more = only is None or any(name not in FLAT_NAMES for name in only)

    def network(address: str, error: str | None, part: "RangePart | None") -> "Network | None":
        if network_of is None or error is not None or not address:
            return None
        return network_of(address if part is None else part.first)

    def flat(address: str, match: Match | None, error: str | None, part: "RangePart | None") -> dict[str, Any]:
        found = flat_answer(address, match, error, part)
        if network_of is not None and error is None and with_more:
            found |= more_of(match, network(address, error, part))
        if record_of is None:
            return found
        asked = address if part is None else part.first
        record = record_of(asked) if error is None and asked else None
        if only is None:
            return {**found, "record": None if record is None else record.as_dict()}
        return {**found, **{path: None if record is None else record.find(path) for path in only if "." in path}}

    def chosen(address: str, match: Match | None, error: str | None, part: "RangePart | None") -> dict[str, Any]:
        found = flat(address, match, error, part)
        if only is None:
            return found
        return {**{name: found.get(name) for name in only}, **({} if error is None else {"error": error})}

    if form == "text" and only is not None:
        yield lambda address, match, error, part=None: row(
            *map(value_text, map(flat(address, match, error, part).get, only))
        )
    elif form == "text":

        def write_text(address: str, match: Match | None, error: str | None, part: "RangePart | None" = None) -> None:
            words = ""
            if match is None or shows_networks():
                # A part of a range has one place, and maybe many networks.
                if part is not None and words_of is not None:
                    words = words_of(part)
                elif (its := network(address, error, part)) is not None:
                    words = network_text(its.facts)
            _write_text(out, address, match, error, part, words)
            if record_of is not None and error is None:
                for path, value in leaves(flat(address, match, error, part)["record"]):
                    _write(out, f"  {harmless(path)}\t{harmless(value_text(value))}\n")

        yield write_text
    elif form == "ndjson":
        yield lambda address, match, error, part=None: _write(
            out, json_line(chosen(address, match, error, part)) + "\n"
        )
    elif form == "csv":
        writer = csv.writer(out, lineterminator="\n")
        names = (*((*FLAT_NAMES, *(_PART_NAMES if ranges else ()), *facts) if only is None else only), "error")
        writer.writerow(names)
        yield lambda address, match, error, part=None: _write_csv(writer, names, flat(address, match, error, part))
    else:
        separator = "[\n"

        def write_item(address: str, match: Match | None, error: str | None, part: "RangePart | None" = None) -> None:
            nonlocal separator
            _write(out, separator + json_line(chosen(address, match, error, part)))
            separator = ",\n"

        yield write_item
        _write(out, "[]\n" if separator == "[\n" else "\n]\n")


def value_text(value: Any) -> str:
    """One value as text for scripts; nothing if it is unknown.

    Several values have a blank between them, and blocks are written as commands take them; an object is JSON.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return " ".join(map(value_text, value))
    if isinstance(value, dict):
        if value.keys() == {"startip", "endip"}:
            return "-".join(dict.fromkeys(value.values()))
        return json_line(value)
    return "" if value is None else str(shown_degrees(value) if isinstance(value, float) else value)


def chosen_results(records: Iterable[Mapping[str, Any]], only: Sequence[str], *, as_json: bool) -> None:
    """The chosen members of records: one JSON text, or a row of values for each record."""

    def say() -> None:
        with table(*only) as row:
            for record in records:
                row(*(value_text(record[name]) for name in only))

    emit(as_json, lambda: [{name: record[name] for name in only} for record in records], say)


def chosen_result(record: Mapping[str, Any], only: Sequence[str], *, as_json: bool) -> None:
    """The chosen members of one record: a JSON object, or a line of values."""
    chosen = {name: record[name] for name in only}
    emit(as_json, chosen, lambda: row(*map(value_text, chosen.values())))


def flat_match(match: Match) -> dict[str, Any]:
    """The object for an answer, with its degrees as they are shown."""
    return with_shown_degrees(match.flat())


def with_shown_degrees(found: Mapping[str, Any]) -> dict[str, Any]:
    """Members of an answer or a geolocation, with its degrees as they are shown."""
    return {**found, **{name: shown_degrees(found[name]) for name in DEGREES if found[name] is not None}}


def flat_answer(
    address: str, match: Match | None, error: str | None, part: "RangePart | None" = None
) -> dict[str, Any]:
    """The object for one address: a not covered one has null members, a malformed one only its error.

    That of a part of a range also has its ends, its size and its share.
    """
    if error is not None:
        return {"ip": address, "locid": None, "error": error}
    found: dict[str, Any] = flat_not_covered(address) if match is None else flat_match(match)
    if part is not None:
        found |= {"first": part.first, "last": part.last, "addresses": part.addresses, "share": part.share}
    return found


def _write(out: TextIO, text: str) -> None:
    out.write(text)


def _write_text(
    out: TextIO, address: str, match: Match | None, error: str | None, part: "RangePart | None", network: str
) -> None:
    more = () if part is None else (addresses_text(part.addresses), _percent(part.share))
    if match is None and part is not None:
        origin = () if out.isatty() else ("-",)
        _write(out, "\t".join([not_covered_line(address, network), f"{part.first}-{part.last}", *origin, *more]) + "\n")
        return
    if match is None:
        # One line for each that was asked for, also if it was blank or malformed: `paste` depends on it.
        unknown = malformed_line(address) if error is not None else ""
        unknown = unknown or (not_covered_line(address, network) if address else "")
        _write(out, unknown + "\n")
        return
    place = match.geolocation
    line = match_line(
        address,
        locid=place.locid,
        country=place.country,
        region=place.region,
        city=place.city,
        postalcode=place.postalcode,
        first=match.first,
        last=match.last,
        layer=match.layer,
        pending=match.pending,
        more=more,
        network=network,
        site=match.site or "",
        vrf=match.vrf or "",
    )
    _write(out, line + "\n")


def _write_csv(writer: Any, names: Sequence[str], row: dict[str, Any]) -> None:
    writer.writerow([_cell(row.get(name)) for name in names])


def addresses_text(count: int) -> str:
    """A number of addresses for a person: ``256 addresses``; of the large ones of IPv6, ``2^64 addresses``."""
    if count == 1:
        return "1 address"
    if count < _MAX_PLAIN_COUNT:
        return f"{count:,} addresses"
    return f"2^{count.bit_length() - 1} addresses" if count & (count - 1) == 0 else f"{count:.3e} addresses"


def _percent(share: float) -> str:
    return "<0.1%" if 0 < share < 0.001 else ">99.9%" if 0.999 < share < 1 else f"{share:.1%}"


@contextlib.contextmanager
def progress(label: str, unit: str = "") -> Iterator[Callable[[int, int | None], None]]:
    """A progress bar on standard error if that is a terminal; told (done, total or None).

    It shows the rate, and the time that is left if the total is known. ``unit`` is what is counted, for who is told
    after Ctrl-C how far it came; without it nobody is.
    """
    reached = interrupt.Progress(unit) if unit else None

    def note(done: int, total: int | None) -> None:
        if reached is not None:
            reached.done, reached.total = done, total

    if not sys.stderr.isatty():
        yield note
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn
    from rich.progress import TimeElapsedColumn as Elapsed
    from rich.text import Text

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text("" if task.speed is None else f"{task.speed:,.0f}/s")

    class Left(ProgressColumn):
        def render(self, task: Task) -> Text:
            left = task.time_remaining
            return Text("" if left is None else f"{int(left) // 60}:{int(left) % 60:02} left")

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Rate(), Elapsed(), Left())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=None)

        def show(done: int, total: int | None) -> None:
            note(done, total)
            bar.update(task, completed=done, total=total)

        yield show
