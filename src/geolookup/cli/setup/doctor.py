"""``doctor``: whether geolookup is well on this machine, line by line, and what to do if it is not."""

from collections import Counter

import click

from geolookup import words
from geolookup.cli import exit_codes, output
from geolookup.cli.options import json_option, url_option
from geolookup.cli.setup import checks

_STYLES = {"ok": "green", "warning": "yellow", "wrong": "red"}


@click.command()
@click.option("--offline", is_flag=True, help="Do not ask the service.")
@url_option
@json_option
def doctor(offline: bool, url: str | None, as_json: bool) -> int:
    """Say whether geolookup is well on this machine, and what to do if it is not.

    \b
    It looks at the versions, accelerator, settings, secrets, clock, state directory, data and their
    age, sources, edits, lock, disk and service. It changes nothing.
    Exit status: 0 nothing is wrong (there may be warnings), 1 something is.

    \b
    Example: geolookup doctor --offline
    """
    found = []
    for finding in checks.examine(url, offline=offline):
        found.append(finding)
        if not as_json:
            output.done(f"{finding.name + ':':<13} {finding.what}", f"{finding.verdict:<9}", _STYLES[finding.verdict])
            if finding.advice:
                output.done(f"{'':22} -> {finding.advice}")
    counts = Counter(finding.verdict for finding in found)
    wrong, warnings = counts["wrong"], counts["warning"]
    if as_json:
        lines = [
            {"name": each.name, "verdict": each.verdict, "what": each.what, "advice": each.advice} for each in found
        ]
        output.json_result({"wrong": wrong, "warnings": warnings, "checks": lines})
    else:
        output.done(f"{wrong} wrong, {words.count(warnings, 'warning')}")
    return exit_codes.of_checks(wrong=wrong)
