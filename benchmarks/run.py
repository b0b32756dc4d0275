"""Runs every benchmark, each in a process of its own, and writes what they print to benchmarks/RESULTS.md."""

import datetime
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence

from benchmarks import chart, goals
from benchmarks.common import ROOT, arguments, environment, machine, versions
from benchmarks.data import FULL, PEER, SMALL, DataSet
from benchmarks.figures import RECORDED, figures, gather

NAMES = (
    *("startup", "opening", "lookup", "native", "matches", "segments", "columns", "facts", "logs", "memory", "sizes"),
    *("enrich", "sync", "sources", "records", "city", "disk", "service_list", "flatten", "guard", "edits"),
    *("exports", "service_load", "one_worker", "share", "console", "compat", "install", "fleet", "vrfs", "sites"),
)
_PACKAGES = (
    *("geolookup", "numpy", "pyarrow", "msgspec", "httpx", "litestar", "uvicorn", "sqlalchemy", "psycopg"),
    *("geoip2", "maxminddb", "mmdb_writer", "polars", "polars-iptools", "chdb", "duckdb"),
)
_COSTS = "What it costs"
_RESULTS = os.path.join(ROOT, "benchmarks", "RESULTS.md")


def _today() -> str:
    return f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}"


def _section(title: str, command: str, printed: str) -> list[str]:
    return [f"## {title}", "", command, "", "```", printed.strip(), "```"]


def _renewed(page: str, title: str, command: str, printed: str) -> str:
    """A page with one section in the place of the one that it had, or in its place among the others."""
    head, *found = page.split("\n## ")
    kept = {text.partition("\n")[0]: text.rstrip("\n") for text in found}
    kept[title] = "\n".join(_section(title, command, printed))[3:]
    kept[_COSTS] = "\n".join(_costs())[3:]
    return "\n\n## ".join([head.rstrip("\n"), *(kept[name] for name in (_COSTS, *NAMES) if name in kept)]) + "\n"


def _costs() -> list[str]:
    """The goals beside what was measured before and now, and the chart."""
    chart.draw(figures())
    picture = f"![Search, build and its memory for 1 to 64 million segments]({os.path.basename(chart.CHART)})"
    return [f"## {_COSTS}", "", *goals.table(), *(["", picture] if os.path.exists(chart.CHART) else [])]


def _page(sections: Sequence[tuple[str, str, str]], data: Sequence[str]) -> str:
    lines = [
        "# Benchmark results",
        "",
        "Written by `python -m benchmarks.run`: do not edit. Nothing here is a promise about another machine: read the",
        "ratios, which were taken side by side in one run. Where a target is set, it stands beside what was measured.",
        "",
        f"- date: {_today()}",
        *(f"- {name}: {value}" for name, value in machine()),
        f"- versions: {', '.join(f'{name} {found}' for name, found in versions(*_PACKAGES))}",
        *(f"- data: {line}" for line in data),
        "",
        *_costs(),
    ]
    for title, command, printed in sections:
        lines += ["", *_section(title, f"`{command}`", printed)]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run them; with ``--only``, the page's other sections are left out: write it elsewhere, or ``--renew`` those."""
    parser = arguments(__doc__)
    parser.add_argument("--renew", action="store_true", help="put what --only names in its place on the page")
    parser.add_argument("words", nargs="*", metavar="-- OPTION", help="options for what --only names")
    parser.add_argument("--only", choices=NAMES, action="append", help="run this one (may be repeated)")
    parser.add_argument("--output", metavar="FILE", help="instead of benchmarks/RESULTS.md; - writes no file")
    options = parser.parse_args()
    output = options.output or ("-" if options.small or options.only else _RESULTS)
    sections = []
    described = []
    for size in (SMALL,) if options.small else () if options.renew else (PEER, FULL):
        # Made before anything is measured.
        data = DataSet(size, options.data)
        described.append(f"{size.name}: {data.describe()}")
        made = [data.home, data.service_db if size is not PEER else "", data.mmdb if size is not FULL else ""]
        assert all(os.path.exists(path) for path in made if path)
    for name in options.only or NAMES:
        words = [f"benchmarks.{name}", *(["--small"] if options.small else []), *options.words]
        command = [sys.executable, "-m", *words, "--data", options.data]
        with tempfile.NamedTemporaryFile() as recorded:
            env = environment() if output == "-" and not options.renew else environment(**{RECORDED: recorded.name})
            done = subprocess.run(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True, check=True)
            gather(recorded.name, _today())
        print(done.stdout, end="", flush=True)
        sections.append((name, f"python -m {' '.join(words)}", done.stdout))
        if options.renew:
            with open(_RESULTS, encoding="utf-8") as file:
                page = file.read()
            with open(_RESULTS, "w", encoding="utf-8") as file:
                file.write(_renewed(page, name, f"`{sections[-1][1]}`, on {_today()}", done.stdout))
        elif output != "-":  # after each, since all of them take most of an hour
            with open(output, "w", encoding="utf-8") as file:
                file.write(_page(sections, described))
    if output != "-" and not options.renew:
        print(f"written: {output}")
    if not options.only:
        print("\n".join(goals.table()))


if __name__ == "__main__":
    main()
