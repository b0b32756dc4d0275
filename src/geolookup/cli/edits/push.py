"""``push``: pending edits, sent to the service."""

from typing import Any

import click

from geolookup.cli import exit_codes, output
from geolookup.cli.options import (
    json_option,
    load_service_settings,
    on_conflict_option,
    state_directory,
    url_moved_option,
    url_option,
    wait_option,
)
from geolookup.state.edits.outbox.row import State
from geolookup.sync import words
from geolookup.sync.push import plan as plans
from geolookup.sync.push.push import push as push_edits


@click.command()
@url_option
@url_moved_option
@click.option("--dry-run", is_flag=True, help="Print the plan and send nothing.")
@click.option("--plan-out", metavar="FILE", help="Write the plan to FILE and send nothing.")
@click.option(
    "--plan", "plan_in", metavar="FILE", help="Send what the plan in FILE says, unless anything has changed since."
)
@on_conflict_option
@wait_option
@json_option
def push(
    url: str | None,
    url_moved: bool,
    dry_run: bool,
    plan_out: str | None,
    plan_in: str | None,
    on_conflict: Any,
    wait_s: float | None,
    as_json: bool,
) -> int:
    """Send pending edits to the service.

    \b
    An edit whose result is unknown is never just sent again: a later push first reads what the
    service has. Exit status: 0 everything was sent, 1 something is left over, 3 some are held
    until you confirm (see `geolookup outbox list`), 75 another run is under way.

    \b
    Example: geolookup push --dry-run
    """
    settings = load_service_settings(url, pushes=True)
    directory = state_directory(settings, wait_s=wait_s)
    if dry_run or plan_out:
        plan = plans.make(directory, settings, on_conflict=on_conflict, url_moved=url_moved)
        if plan_out:
            plans.save(plan, plan_out)
        if as_json:
            output.json_result(plan)
        else:
            for number, request in enumerate(plan["requests"], start=1):
                output.done(f"{number}. {request['method']} {request['target']}: {request['reason']}")
            for waiting in plan["waiting"]:
                output.done(f"-  {waiting['what']}: {waiting['reason']}")
            requests = words.count(len(plan["requests"]), "request")
            output.done(requests + (f", written to {plan_out}" if plan_out else ""))
        return exit_codes.DONE
    check = None
    if plan_in is not None:
        plan = plans.read(plan_in)
        on_conflict, check = plan["on_conflict"], plans.checker(plan, directory, settings)
    with output.progress("edits") as progress:
        report = push_edits(
            directory, settings, on_conflict=on_conflict, url_moved=url_moved, check=check, progress=progress
        )
    if as_json:
        output.json_result(report.as_dict())
    else:
        for line in report.edits:
            if line["state"] == State.DONE:
                output.done(f"{line['state']}: {line['what']}: {line['reason']}")
            else:  # with its number, by which a decision names it
                output.note(f"{line['state']}: edit {line['edit']}: {line['what']}: {line['reason']}")
        for told in [*report.warnings, *(notice["reason"] for notice in report.notices), *report.half_done]:
            output.note(told)
        left = ", ".join(f"{count} {state}" for state, count in words.left_over(report).items() if count)
        output.done(f"{report.done} done in {words.count(report.requests, 'request')}; {left or 'nothing left over'}")
    if report.stopped is not None:
        output.fail(report.stopped)
    return exit_codes.of_push(report)
