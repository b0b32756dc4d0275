"""``doctor``: checks of this machine, line by line, and what to do about what is wrong.

Nothing is left changed, and no state is made.
"""

import contextlib
import grp
import os
import platform
import pwd
import shlex
import stat
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Literal

import click
import msgspec

from geolookup.base.version import __version__
from geolookup.cli import exit_codes, output
from geolookup.cli.options import json_option, url_option
from geolookup.http.transport import Transport
from geolookup.index import native
from geolookup.model.errors import (
    GeoLookupError,
    NoStateError,
    SettingsError,
    UpstreamAuthError,
    UpstreamError,
)
from geolookup.model.reports import StateCheck, Status
from geolookup.settings.load import load_with_origins
from geolookup.settings.paths import PURE, default_home, may_make_default_home, settings_path
from geolookup.settings.secrets import read_ping_url, read_secret, read_source_secret
from geolookup.settings.table import Settings
from geolookup.settings.times import in_words, of_day
from geolookup.sources.bundled import BUNDLED, MORE
from geolookup.state.base import files, readers, sqlite
from geolookup.state.base.clock import age_s, wall
from geolookup.state.publishing import checks
from geolookup.state.publishing.directory import StateDirectory
from geolookup.sync import opening, words

#: A clock that differs from the service's by more than this is wrong, and one that is earlier than this release, too.
_SKEW_S = 60.0
_FIRST_DAY = datetime(2025, 1, 1, tzinfo=UTC)
#: How long the service may take to answer.
_PATIENCE_S = 10.0

_Verdict = Literal["ok", "warning", "wrong"]
_STYLES: dict[_Verdict, str] = {"ok": "green", "warning": "yellow", "wrong": "red"}


@click.command()
@click.option("--offline", is_flag=True, help="Do not ask the service.")
@url_option
@json_option
def doctor(offline: bool, url: str | None, as_json: bool) -> int:
    """Say whether geolookup is well on this machine, and what to do if it is not.

    \b
    It looks at the versions, accelerator, settings, secrets, clock, state directory, data and their
    age, sources, writing, disk, edits, lock and service. It leaves nothing changed.
    Exit status: 0 nothing is wrong (there may be warnings), 1 something is.

    \b
    Example: geolookup doctor --offline
    """
    found = []
    for finding in _examine(url, offline=offline):
        found.append(finding)
        if not as_json:
            output.done(f"{finding.name + ':':<13} {finding.what}", f"{finding.verdict:<9}", _STYLES[finding.verdict])
            if finding.advice:
                output.done(f"{'':22} -> {finding.advice}")
    counts = Counter(finding.verdict for finding in found)
    wrong, warnings = counts["wrong"], counts["warning"]
    value = {"wrong": wrong, "warnings": warnings, "checks": [asdict(each) for each in found]}
    output.emit(as_json, value, f"{wrong} wrong, {words.count(warnings, 'warning')}")
    return exit_codes.of_checks(wrong=wrong)


@dataclass(frozen=True, slots=True)
class _Finding:
    """One line: the thing looked at, the verdict, the reason, and what to do about it ("" if nothing)."""

    name: str
    verdict: _Verdict
    what: str
    advice: str = ""


@dataclass(slots=True)
class _Seen:
    """Findings of the checks before, for those after: each is None if it cannot be used."""

    url: str | None = None
    settings: Settings | None = None
    directory: StateDirectory | None = None
    status: Status | None = None


def _examine(url: str | None, *, offline: bool) -> Iterator[_Finding]:
    """Every check, in an order in which a cause comes before what follows from it."""
    seen = _Seen(url=url)
    checks: dict[str, Callable[[_Seen], Iterator[_Finding]]] = {
        "versions": _versions,
        "accelerator": _accelerator,
        "settings": _settings,
        "secrets": _secrets,
        "clock": _clock,
        "state": _state,
        "data": _data,
        "age": _age,
        "sources": _sources,
        "held": _held,
        "runs": _runs,
        "state's needs": _next_sync,
    }
    if not offline:
        checks["service"] = _service
    told = set()
    for name, check in checks.items():
        try:
            yield from check(seen)
        except GeoLookupError as error:
            if str(error) not in told:  # one cause stops several checks
                yield _Finding(name, "wrong", str(error))
            told.add(str(error))


def _versions(_seen: _Seen) -> Iterator[_Finding]:
    python = f"Python {platform.python_version()} in {sys.prefix}"
    yield _Finding("versions", "ok", f"geolookup {__version__}, {python}, SQLite {sqlite.VERSION}, {platform.system()}")


def _accelerator(_seen: _Seen) -> Iterator[_Finding]:
    if native.accelerator() is not None:
        yield _Finding("accelerator", "ok", "built and in use")
    elif os.environ.get(PURE, "0") not in ("", "0"):
        yield _Finding("accelerator", "warning", f"{PURE} is set, so lookups are several times slower", f"unset {PURE}")
    else:
        yield _Finding(
            "accelerator",
            "warning",
            "not built, so lookups are several times slower",
            "install a C compiler and Python's headers, then: pip install --force-reinstall --no-deps geolookup",
        )


def _settings(seen: _Seen) -> Iterator[_Finding]:
    seen.settings, origins = load_with_origins({"url": seen.url})
    path = settings_path()
    seen.directory = StateDirectory(seen.settings.state_home(), keep_generations=seen.settings.keep_generations)
    if not os.path.exists(path):
        where = f"no file at {path}"
    else:
        where = path
        if os.stat(path).st_mode & stat.S_IWOTH:
            what = f"{path}: every user of this machine may change it, and so redirect the secret"
            yield _Finding("settings", "wrong", what, f"chmod o-w {shlex.quote(path)}")
            return
    yield _Finding("settings", "ok", f"{where}; {words.count(len(origins), 'setting')} set (`geolookup config show`)")


def _secrets(seen: _Seen) -> Iterator[_Finding]:
    settings = seen.settings
    if settings is None:
        return
    read = []
    if settings.token_file == "-":  # noqa: S105 - the name of standard input
        read.append("token from standard input (not read)")
    elif read_secret(settings) is not None:
        read.append("token")
    if settings.ping_url_file != "-" and read_ping_url(settings) is not None:
        read.append("address to ping")
    read += [f"token of source {each.name}" for each in settings.sources if read_source_secret(each) is not None]
    yield _Finding("secrets", "ok", ", ".join(read) or "none are set")


def _clock(_seen: _Seen) -> Iterator[_Finding]:
    now = wall()
    if now < _FIRST_DAY:
        yield _Finding("clock", "wrong", f"this machine's clock says {now:%Y-%m-%d %H:%M} UTC", "set the clock")
    else:
        yield _Finding("clock", "ok", f"{now:%Y-%m-%d %H:%M:%S} UTC")


def _state(seen: _Seen) -> Iterator[_Finding]:
    if seen.directory is None:
        return
    home = seen.directory.home
    try:
        found = os.stat(home)
    except FileNotFoundError:
        is_default = os.path.abspath(home) == default_home()
        if not os.access(files.nearest_directory(home), os.W_OK) or (is_default and not may_make_default_home()):
            what = f"{home}: not there, and {_name_of(os.geteuid())} cannot make it: lookups are an error"
            yield _Finding("state", "warning", what, "name a state with GEOLOOKUP_HOME")
            return
        maker = "the first lookup or sync" if is_default else "`geolookup sync`"
        yield _Finding("state", "ok", f"{home}: not there yet; {maker} makes it")
        return
    except OSError as error:
        advice = "enter its parents as a user who may, or set `home` to a directory of your own"
        yield _Finding("state", "wrong", f"{home}: {error.strerror}", advice)
        return
    if not stat.S_ISDIR(found.st_mode):
        yield _Finding(
            "state", "wrong", f"{home}: is not a directory", "name another one: `geolookup config init --home`"
        )
        return
    owner = _name_of(found.st_uid)
    if (warning := files.open_to_all(home)) is not None:
        what, _, advice = warning.rpartition(": ")
        yield _Finding("state", "wrong", what, advice)
    elif others := [name for name in _inside(home) if os.lstat(os.path.join(home, name)).st_uid != found.st_uid]:
        what = f"{home} belongs to {owner}, and {', '.join(others)} in it to somebody else"
        advice = f"chown -R {owner} {shlex.quote(home)}; run sync as {owner}, without sudo"
        yield _Finding("state", "wrong", what, advice)
    elif not os.access(home, os.R_OK | os.X_OK):
        advice = (
            f"run geolookup as {owner} (`sudo -u {owner} geolookup`); or {owner} lets a group read it with "
            "`geolookup config init --group NAME`"
        )
        yield _Finding("state", "wrong", f"{home}: belongs to {owner}, and this user may not read it", advice)
    elif files.is_read_only(home):
        advice = "sync and edit where it is mounted read-write, or remount it: mount -o remount,rw"
        what = f"{home}, of {owner}: its file system is mounted read-only: lookups answer, syncs and edits fail"
        yield _Finding("state", "warning", what, advice)
    elif not os.access(home, os.W_OK):
        what = f"{home}: belongs to {owner}; this user may look up, and may not sync or edit"
        yield _Finding("state", "warning", what, f"run sync and edits as {owner}")
    elif found.st_uid != os.geteuid():
        what = f"{home} belongs to {owner}: what {_name_of(os.geteuid())} writes there {owner} may be unable to use"
        yield _Finding("state", "wrong", what, f"run geolookup as {owner} (`sudo -u {owner} geolookup`)")
    elif (group := readers.group_of(home)) is not None:
        name = _group_name(group)
        what = f"{home}, of {owner}; members of {name} may read what is published"
        if closed := [*readers.closed_parents(home, group)]:
            advice = "move the state below a directory that they may enter: `geolookup config init --home`"
            yield _Finding("state", "warning", f"{what}, and may not enter {closed[-1]}", advice)
        else:
            yield _Finding("state", "ok", what)
    else:
        yield _Finding("state", "ok", f"{home}, of {owner}, mode {stat.S_IMODE(found.st_mode):04o}")


def _inside(home: str) -> list[str]:
    with contextlib.suppress(OSError):
        return sorted(os.listdir(home))
    return []


def _name_of(user: int) -> str:
    with contextlib.suppress(KeyError):
        return pwd.getpwuid(user).pw_name
    return str(user)


def _group_name(group: int) -> str:
    with contextlib.suppress(KeyError):
        return grp.getgrgid(group).gr_name
    return str(group)


def _data(seen: _Seen) -> Iterator[_Finding]:
    settings, directory = seen.settings, seen.directory
    if settings is None or directory is None:
        return
    try:
        if directory.current() is None:
            raise NoStateError(directory.home)
        with opening.open(directory.home, settings=settings, stale="serve") as geo:
            found = seen.status = geo.status()
    except NoStateError:
        advice = "run `geolookup sync`" if settings.stack else MORE
        verdict: _Verdict = "wrong" if settings.stack else "warning"
        yield _Finding("data", verdict, "nothing has been published yet", advice)
        return
    served = f"generation {found.generation} from {found.source}: {words.count(found.geolocations, 'geolocation')}"
    if found.problem:
        yield _Finding("data", "wrong", f"{served}; {found.problem}", "`geolookup verify` names what is damaged")
    elif found.source == BUNDLED:
        yield _Finding("data", "warning", f"{served}, countries only", MORE)
    else:
        yield _Finding("data", "ok", served)


def _age(seen: _Seen) -> Iterator[_Finding]:
    settings, found = seen.settings, seen.status
    if settings is None or found is None:
        return
    limit_s = settings.check_max_age_s
    bundled = found.source == BUNDLED
    checked = "" if bundled else f", checked {in_words(found.age_s)} ago"
    age = f"data {of_day(found.dated)}{f' ({in_words(age_s(found.dated))} ago)' if found.dated else ''}{checked}"
    if found.stale:
        fate = {"serve": "served", "warn": "served with a warning", "refuse": "refused"}[settings.stale]
        what = f"{age}, and `max_age` is {in_words(found.max_age_s or 0)}: lookups are {fate}"
        yield _Finding("age", "wrong" if settings.stale == "refuse" else "warning", what, "run `geolookup sync`")
    elif found.max_age_s is None and limit_s is not None and found.age_s > limit_s and found.source != BUNDLED:
        yield _Finding("age", "warning", age, "run `geolookup sync` from a timer: `geolookup refresh --print-systemd`")
    elif old := words.too_old_data(found, settings.max_data_age_s):
        yield _Finding("age", "warning", f"{age}: {'; '.join(old)}", "get a newer file, then `geolookup sync`")
    else:
        yield _Finding("age", "ok", age)


def _sources(seen: _Seen) -> Iterator[_Finding]:
    settings, found = seen.settings, seen.status
    if settings is None:
        return
    known = {} if found is None else {source.name: source for source in found.sources}
    well = True
    for each in settings.stack:
        name = f"source {each.name}"
        here = known.get(each.name)
        if each.location and not each.is_remote and not os.path.exists(each.location):
            advice = f"put it back, or: geolookup source remove {each.name}"
            yield _Finding(name, "wrong", f"{each.location} is not there", advice)
        elif here is None or not here.digest:
            yield _Finding(name, "warning", "never pulled", "run `geolookup sync`")
        elif here.problem:
            yield _Finding(name, "wrong", f"since {here.problem_since}: {here.problem}", "run `geolookup sync`")
        elif here.overdue:
            yield _Finding(name, "wrong", "its licence requires that this version is removed", "run `geolookup sync`")
        else:
            continue
        well = False
    if well:
        yield _Finding("sources", "ok", ", ".join(each.name for each in settings.stack) or "none are set")


def _edits(seen: _Seen, found: StateCheck) -> _Finding:
    if found.verdict != "ok" or seen.directory is None or not seen.directory.edits.exists():
        return _finding(found)
    # As `status` counts them: without a service in the stack nothing waits to be sent.
    pending = 0 if seen.status is None else seen.status.pending_edits or 0
    waits = f"{words.count(pending, 'edit')} not sent yet"
    service = seen.settings is not None and seen.settings.url is not None
    held = 0 if seen.status is None else seen.status.waiting_edits
    if held:
        return _Finding(
            "edits", "warning", f"{waits}, {held} of them held or rejected", "`geolookup outbox list` says why"
        )
    return _Finding("edits", "ok", f"{waits}: `geolookup push` sends" if pending and service else waits)


def _held(seen: _Seen) -> Iterator[_Finding]:
    if seen.status is not None and seen.status.held:
        what = f"a pull is held for a person: {seen.status.held[:16]}"
        advice = "`geolookup generations show held` says why, and `geolookup generations diff served held` what changes"
        yield _Finding("held", "warning", what, advice)


def _runs(seen: _Seen) -> Iterator[_Finding]:
    for failure in () if seen.status is None else seen.status.failures:
        what = f"the last {failure.run} failed: {failure.message}"
        yield _Finding("runs", "wrong", what, f"mend that, then run `geolookup {failure.run}`")


def _next_sync(seen: _Seen) -> Iterator[_Finding]:
    """The needs of the next sync, as `status --check` tries them."""
    if seen.directory is None:
        return
    if not os.path.isdir(seen.directory.home):
        yield _finding(checks.room(seen.directory, None))
        return
    for found in checks.checks(seen.directory, seen.directory.current_or_none()):
        if found.name == "edits":
            yield _edits(seen, found)
        elif found.name != "runs" or found.verdict != "ok":  # the check before names the runs that failed
            yield _finding(found)


def _finding(found: StateCheck) -> _Finding:
    if found.verdict == "not tried":
        return _Finding(found.name, "ok", f"not tried: {found.what}")
    return _Finding(found.name, found.verdict, found.what, found.advice)


def _service(seen: _Seen) -> Iterator[_Finding]:
    settings = seen.settings
    if settings is None:
        return
    if settings.url is None:
        remembered = None if seen.directory is None else seen.directory.service_url()
        if remembered is None:
            yield _Finding("service", "ok", "none is set")
            return
        settings = msgspec.structs.replace(settings, url=remembered)
    if settings.token_file == "-":  # noqa: S105 - the name of standard input
        raise SettingsError("its token would be read from standard input: not asked")
    limits = {
        name: min(getattr(settings, name), _PATIENCE_S)
        for name in ("connect_timeout_s", "read_timeout_s", "total_timeout_s")
    }
    try:
        with Transport(msgspec.structs.replace(settings, attempts=1, **limits)) as transport:
            body = transport.stream(settings.path_list, params={"top": 1})
            body.close()
    except UpstreamAuthError as error:
        yield _Finding(
            "service", "wrong", f"{settings.url}: {error}", "`geolookup config init --token-from FILE --replace`"
        )
        return
    except UpstreamError as error:
        advice = "check `url` (`geolookup config show url`), the network, and whether the service runs"
        said = str(error) if str(settings.url) in str(error) else f"{settings.url}: {error}"
        yield _Finding("service", "wrong", said, advice)
        return
    date = body.headers.get("date", "")
    with contextlib.suppress(ValueError, TypeError):
        skew_s = (wall() - parsedate_to_datetime(date)).total_seconds()
        if abs(skew_s) > _SKEW_S:
            ahead = "ahead of" if skew_s > 0 else "behind"
            what = f"this machine's clock is {in_words(abs(skew_s))} {ahead} the service's"
            yield _Finding("clock", "warning", what, "set the clock (chrony or systemd-timesyncd)")
    yield _Finding("service", "ok", f"{settings.url} answers")
