"""What it costs, beside what it cost before and what it should: the table at the head of RESULTS.md.

The column *before* was measured on this kind of machine before work on these goals began; what is measured now comes
from `benchmarks.figures`. A line whose figures are missing says which benchmark prints them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from benchmarks.city import GOALS as CITY
from benchmarks.figures import days, figures

_REAL = "on DB-IP City Lite"


@dataclass(frozen=True, slots=True)
class Goal:
    """A line: what is measured, what it was, the figures of now in a text with their names, and the goal.

    ``limit`` says what keeps it from the goal, for the time that it is not met.
    """

    what: str
    before: str
    now: str
    peers: str
    goal: str
    met: Callable[[Mapping[str, float]], bool]
    limit: str = ""


def _of_city(what: str, shown: str, limit: str = "") -> Goal:
    """A command on DB-IP City: seconds are of a machine that did other things too, so the goal is met by the ratio."""
    seconds, mib, goal_s, goal_mib = CITY[what]
    return Goal(
        f"{shown}, both files, 14.8 M networks: processor time; peak memory",
        f"{seconds:.1f} s" + (f"; {mib} MiB" if mib else ""),
        f"{{city/{what}/times:.1f}} times as fast ({{city/{what}/before CPU s:.1f}} to {{city/{what}/CPU s:.1f}} s)"
        + (f"; {{city/{what}/before MiB:.0f}} to {{city/{what}/MiB:.0f}} MiB" if mib else ""),
        f"floor {{city/{what}/floor s:.2f}} s",
        f"{goal_s:.0f} s, which is {seconds / goal_s:.1f} times as fast" + (f"; {goal_mib} MiB" if goal_mib else ""),
        lambda now: (
            now[f"city/{what}/times"] >= seconds / goal_s and (not goal_mib or now[f"city/{what}/MiB"] <= goal_mib)
        ),
        limit,
    )


#: Microseconds of processor time of nginx for the request of `benchmarks.one_worker`, on the machine on which 20,000
#: lookups a second were asked for: 50 us each. Meant is the ratio, since a machine may be slower on another day.
_NGINX_US = 7.0


def _of_worker(what: str, server: str, before: str) -> Goal:
    """Lookups over HTTP by one process: the goal is met by the ratio to nginx's processor time in the same run."""
    return Goal(
        what,
        before,
        f"{{one_worker/lookup/{server}:,.0f}} a second; {{one_worker/lookup/{server} CPU us:.0f}} us of processor time",
        "nginx with GeoIP2 {one_worker/lookup/nginx:,.0f}; {one_worker/lookup/nginx CPU us:.1f} us",
        f"20,000 where nginx takes {_NGINX_US:.0f} us: {1e6 / 20_000 / _NGINX_US:.1f} times as long as nginx",
        lambda now: (
            now[f"one_worker/lookup/{server} CPU us"]
            <= 1e6 / 20_000 / _NGINX_US * now["one_worker/lookup/nginx CPU us"]
        ),
        "three quarters of the time are Python's, from the head of the request to the JSON of the answer, and the rest "
        "the system's: to receive, to send, and to wake the client",
    )


GOALS = (
    *(
        _of_city(what, *shown)
        for what, *shown in (
            ("first sync", "first sync of DB-IP City"),
            ("check", "`check` of it"),
            ("verify", "`verify` of it"),
            ("export mmdb", "`export mmdb` of it"),
            (
                "sync again, one text changed",
                "sync of it again, one text changed",
                (
                    "the file does not say what is new in it: reading it and laying it anew takes four fifths of the "
                    "time, packing the snapshot before it as what differs a tenth, and comparing both a tenth"
                ),
            ),
        )
    ),
    Goal(
        "a column of a million IPv4 texts to country and city, one thread, 3.5 M ranges",
        "79 ns a row",
        "{columns/1000000 uniform/Ours:.0f} ns",
        "Polars {columns/1000000 uniform/Polars:.0f}, rows in order {columns/1000000 uniform/PolarsInOrder:.0f}; "
        "DuckDB {columns/1000000 uniform/DuckDB:.0f}",
        "40 ns",
        lambda now: now["columns/1000000 uniform/Ours"] <= 40,
    ),
    Goal(
        "the same, ten millions",
        "79 ns a row",
        "{columns/10000000 uniform/Ours:.0f} ns",
        "Polars {columns/10000000 uniform/Polars:.0f}, rows in order {columns/10000000 uniform/PolarsInOrder:.0f}; "
        "DuckDB {columns/10000000 uniform/DuckDB:.0f}",
        "40 ns; 6 times as fast as Polars in order, 2.5 times as without",
        lambda now: (
            now["columns/10000000 uniform/Ours"] <= 40
            and now["columns/10000000 uniform/PolarsInOrder"] >= 6 * now["columns/10000000 uniform/Ours"]
            and now["columns/10000000 uniform/Polars"] >= 2.5 * now["columns/10000000 uniform/Ours"]
        ),
        "half of the time of a row is the search ({segments/search/4:.0f} ns in 4 million ranges, of whole numbers); "
        "two thirds of that are three reads of memory from anywhere, which take 13 ns without any search",
    ),
    Goal(
        "the same, a million, Zipf",
        "64 ns a row",
        "{columns/1000000 zipf/Ours:.0f} ns",
        "Polars {columns/1000000 zipf/Polars:.0f}, rows in order {columns/1000000 zipf/PolarsInOrder:.0f}",
        "32 ns",
        lambda now: now["columns/1000000 zipf/Ours"] <= 32,
    ),
    Goal(
        "a column of a million IPv4 texts to AS numbers, one thread, 345,000 ranges of networks",
        "no such column",
        "{facts/asn:.0f} ns a row",
        "",
        "40 ns",
        lambda now: now["facts/asn"] <= 40,
    ),
    Goal(
        "`enrich` of two million rows, CSV to CSV; NDJSON to NDJSON; 3.5 M ranges: processor time",
        "17.2 s; 15.4 s",
        "{enrich/csv/CPU s:.1f} s; {enrich/ndjson/CPU s:.1f} s",
        "Parquet {enrich/parquet/CPU s:.1f} s",
        "8 s",
        lambda now: max(now["enrich/csv/CPU s"], now["enrich/ndjson/CPU s"]) <= 8,
    ),
    Goal(
        "`match` of an address not asked before; with its country; with its AS number; 4.5 M blocks, 480,000 records",
        "6.4 us",
        "{matches/match/us:.2f} us; {matches/country/us:.2f}; {matches/asn/us:.2f}",
        "",
        "0.5 us",
        lambda now: max(now[f"matches/{name}/us"] for name in ("match", "country", "asn")) <= 0.5,
        "`lookup(text)` alone takes 0.64 us in the same run; the least of 41 rounds are 0.51, 0.55 and 0.93 us; the AS "
        "number stands in another file, which is searched, too",
    ),
    Goal(
        f"one lookup, IPv4, spread evenly, {_REAL}",
        "4.5 times as fast as maxminddb (C)",
        "{sources/lookup/IPv4 times:.1f} times",
        "maxminddb {sources/lookup/IPv4 maxminddb:.2f} us",
        "6 times",
        lambda now: now["sources/lookup/IPv4 times"] >= 6,
    ),
    Goal(
        f"one lookup, IPv6, spread evenly, {_REAL}",
        "3.3 times as fast as maxminddb (C)",
        "{sources/lookup/IPv6 times:.1f} times",
        "maxminddb {sources/lookup/IPv6 maxminddb:.2f} us",
        "5 times",
        lambda now: now["sources/lookup/IPv6 times"] >= 5,
    ),
    Goal(
        f"private memory that lookups and reading of each of 566,833 places leave, {_REAL}",
        "grows with the places met",
        "{places/accelerator/MiB more:.1f} MiB",
        "",
        "does not grow",
        lambda now: now["places/accelerator/MiB more"] < 4,
    ),
    Goal(
        "sync of that list, 8.1 M blocks: peak memory",
        "807 MiB",
        "{sync/places/peak MiB:.0f} MiB",
        "",
        "400 MiB",
        lambda now: now["sync/places/peak MiB"] <= 400,
    ),
    Goal(
        "index of GeoLite2-shaped data, 3 M networks, 400,000 records of 60,000 places, to the MaxMind DB of the same",
        "no records",
        "{records/index/times:.2f} times; {records/index scattered/times:.2f} if each record has its own coordinates",
        "",
        "1 time",
        lambda now: now["records/index/times"] <= 1,
    ),
    Goal(
        f"sync of a file with its whole records, to the same without, {_REAL}: processor time; peak memory",
        "19.6 s; 561 MiB",
        "{records/sync CPU s/times:.2f} times; {records/sync peak MiB/times:.2f} times",
        "",
        "1.1 times",
        lambda now: max(now["records/sync CPU s/times"], now["records/sync peak MiB/times"]) <= 1.1,
    ),
    Goal(
        "seven similar nights on disk, to one",
        "7 times",
        "{disk/nights/times:.2f} times",
        "",
        "1.5 times",
        lambda now: now["disk/nights/times"] <= 1.5,
    ),
    Goal(
        "the same of a file of 10 MB; of a list of 20 MB",
        "1.84 times at 28 MB",
        "{disk/nights/file 10 MB/times:.2f} times; {disk/nights/list small/times:.2f} times",
        "",
        "1.5 times",
        lambda now: max(now[f"disk/nights/{name}/times"] for name in ("file 10 MB", "list small")) <= 1.5,
    ),
    Goal(
        "state of DB-IP City after one sync, both files; after one more, one text changed",
        "478 MB, as two sources",
        "{city/state/MB:.0f} MB; {city/state again/MB:.0f} MB (before {city/state/before MB:.0f}; "
        "{city/state again/before MB:.0f} MB)",
        "the files themselves {city/source/MB:.0f} MB",
        "300 MB",
        lambda now: now["city/state/MB"] <= 300,
    ),
    Goal(
        "open and first answer, files not in memory, 4.5 M blocks",
        "40 ms",
        "{opening/4,500,000 blocks, files not in memory/ms:.1f} ms",
        "",
        "10 ms",
        lambda now: now["opening/4,500,000 blocks, files not in memory/ms"] <= 10,
    ),
    _of_worker("`GET /lookup/{ip}`, one worker, 16 connections of wrk", "ours", "5,400 a second"),
    _of_worker("the same by `share`, with tokens", "share", "5,790 a second"),
    Goal(
        "push over loopback",
        "83 edits a second",
        "{edits/push/a second:.0f} a second",
        "",
        "400",
        lambda now: now["edits/push/a second"] >= 400,
        "an edit takes the client 1.5 ms of processor time and the service 1.4 (2.0 and 1.9 beside other work), on a "
        "machine that takes {one_worker/lookup/nginx CPU us:.0f} us for a request to nginx, and took 7 when the goal "
        "was set; either side asks SQL nine times an edit, and the service commits to disk for every two or three",
    ),
    Goal(
        "search from whole numbers in 1, 4, 16, 64 M segments",
        "19, 26, 52, 91 ns",
        "{segments/search/1:.0f}, {segments/search/4:.0f}, {segments/search/16:.0f}, {segments/search/64:.0f} ns; "
        "16 M {segments/search/16 times:.2f} times 1 M",
        "",
        "1.4 times",
        lambda now: now["segments/search/16 times"] <= 1.4,
        "three reads from anywhere in the arrays, without any search, take 23 ns in 16 million segments and 6 ns in "
        "one million: 3.8 times, since the caches hold the smaller index",
    ),
    Goal(
        "building 1, 4, 16, 64 M segments",
        "0.3, 0.8, 3.9, 17.8 s; 4.6 GB at 64 M",
        "{segments/build s/1:.1f}, {segments/build s/4:.1f}, {segments/build s/16:.1f}, {segments/build s/64:.1f} s; "
        "{segments/build MiB/64:,.0f} MiB at 64 M",
        "",
        "linear; 1 GB",
        lambda now: now["segments/build MiB/64"] <= 1024,
    ),
    Goal(
        "what pip installs, for lookups alone (`--no-deps`); for all commands, each of which builds with numpy",
        "150 MB in 28 packages for either",
        "{install/alone/MB:.0f} MB; {install/base/MB:.0f} MB in {install/base/packages:.0f} packages",
        "numpy alone {install/numpy/MB:.0f} MB",
        "60 MB",
        lambda now: max(now["install/alone/MB"], now["install/base/MB"]) <= 60,
        "numpy alone has {install/numpy/MB:.0f} MB, and all that builds needs it; lookups do not",
    ),
)


def table() -> list[str]:
    """The table in Markdown, of the newest figures, and below it what keeps those from their goals that miss them."""
    found = figures()
    lines = ["| what | before | now | peers, in the same run | goal | met |", "| --- | --- | --- | --- | --- | --- |"]
    limits = []
    for goal in GOALS:
        now, peers = _filled(goal.now, found), _filled(goal.peers, found)
        try:
            met = "yes" if goal.met(found) else "no"
        except KeyError:
            met = ""
        lines.append(f"| {goal.what} | {goal.before} | {now} | {peers} | {goal.goal} | {met} |")
        if met == "no" and goal.limit:
            limits.append(f"- {goal.what}: {_filled(goal.limit, found)}")
    between = " to ".join(dict.fromkeys((days()[0], days()[-1]))) if days() else "never"
    lines += ["", f"Measured {between}, each by the benchmark of that name below."]
    return [*lines, "", "What keeps those that miss their goal from it:", "", *limits] if limits else lines


def _filled(text: str, found: Mapping[str, float]) -> str:
    """The text with its figures; "not measured" if one is missing."""
    try:
        return text.format_map(found)
    except KeyError as missing:
        benchmark = missing.args[0].partition("/")[0].replace("places", "sources")  # which runs it
        return f"not measured: `python -m benchmarks.run --only {benchmark} --renew`"
