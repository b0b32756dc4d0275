"""A source as a sync sees it: what the settings say about it, its preset filled in, and the address of a given day."""

import contextlib
import os
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any
from urllib.parse import quote

from geolookup.model.errors import SettingsError
from geolookup.settings.source import SERVICE, SourceSettings
from geolookup.sources.providers import Dated, Terms, preset

TOKEN = "{token}"  # noqa: S105 - what stands for it
_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*)://")
_MONDAYS = 3
_NO_TERMS = Terms(licence="", attribution="", keep_days=None, redistribute=True)
_ENDINGS = (".gz", ".zip", ".tar", ".tgz", ".xlsx", ".ods", ".csv", ".mmdb", ".json", ".ndjson", ".txt", ".geofeed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """One source. ``kind`` and ``layer`` are empty if the content says them, ``sheet`` if no sheet of a workbook was
    named; ``location`` is empty for a service and
    the registry.

    ``max_age_s`` and ``max_data_age_s`` are None without a limit. ``dated`` says which earlier files are tried after a
    404 (`Preset`). ``given`` is true for a file that is not in the settings. Of the licence, "" and None are what
    neither the settings nor a preset say: the file itself may say it (`terms`).
    """

    name: str
    kind: str = ""
    location: str = ""
    fields: Mapping[str, str] = field(default_factory=dict)
    layer: str = ""
    sheet: str = ""
    max_age_s: float | None = None
    max_data_age_s: float | None = None
    auth: str = ""
    auth_header: str = ""
    licence: str = ""
    attribution: str = ""
    keep_days: int | None = None
    redistribute: bool | None = None
    dated: Dated = ""
    given: bool = False
    settings: SourceSettings | None = None

    @property
    def is_service(self) -> bool:
        """True if it is the service."""
        return self.kind == SERVICE

    @property
    def is_remote(self) -> bool:
        """True if it is fetched over HTTP."""
        return self.location.lower().startswith(("https://", "http://"))

    def terms(self, found: Terms | None = None) -> dict[str, Any]:
        """The members of a snapshot's record; ``found`` are the recognised file's terms, for those not set."""
        found = found or _NO_TERMS
        return {
            "location": self.location,
            "max_age_s": self.max_age_s,
            "max_data_age_s": self.max_data_age_s,
            "licence": self.licence or found.licence,
            "attribution": self.attribution or found.attribution,
            "keep_days": found.keep_days if self.keep_days is None else self.keep_days,
            "redistribute": found.redistribute if self.redistribute is None else self.redistribute,
            "given": self.given,
        }

    def addresses(self, day: date, secret: str | None) -> list[str]:
        """The addresses of the file of a day: one, and after it those of earlier days that may be right.

        :raises SettingsError: if the address needs a secret and there is none
        """
        if TOKEN in self.location and not secret:
            raise SettingsError(f"source {self.name}: its address needs a token: name a `token_file`")
        days = [day]
        if self.dated == "month" and ("{MM}" in self.location or "{YYYY}" in self.location):
            days.append(day.replace(day=1) - timedelta(days=1))
        elif self.dated == "monday":
            monday = day - timedelta(days=day.weekday())
            days = [monday - timedelta(weeks=weeks) for weeks in range(_MONDAYS)]
        return [self._address(each, secret) for each in days]

    def _address(self, day: date, secret: str | None) -> str:
        found = {"{YYYY}": f"{day.year:04d}", "{MM}": f"{day.month:02d}", "{DD}": f"{day.day:02d}"}
        if secret is not None:
            found[TOKEN] = quote(secret, safe="")
        return re.sub(r"\{(?:YYYY|MM|DD|token)\}", lambda match: found[match[0]], self.location)


def define(source: SourceSettings) -> Definition:
    """A source of the settings, with its preset's values for what it does not say itself.

    :raises SettingsError: if the preset is unknown
    """
    if not source.preset:
        return Definition(
            name=source.name,
            kind=source.kind,
            location=source.location,
            fields=dict(source.fields),
            layer=source.layer,
            sheet=source.sheet,
            max_age_s=source.max_age_s,
            max_data_age_s=source.max_data_age_s,
            auth=source.auth or "bearer",
            auth_header=source.auth_header,
            licence=source.licence,
            attribution=source.attribution,
            keep_days=source.keep_days,
            redistribute=source.redistribute,
            settings=source,
        )
    found = preset(source.preset)
    auth = "" if found.auth == "token" else "basic" if found.auth == "basic" else "bearer"
    own = SourceSettings(
        name=source.name,
        max_age=source.max_age if source.max_age != "" else found.max_age,
        max_data_age=source.max_data_age if source.max_data_age != "" else found.max_data_age,
    )
    return Definition(
        name=source.name,
        kind=source.kind or found.kind,
        location=source.location or found.location,
        fields=dict(source.fields),
        layer=source.layer,
        sheet=source.sheet,
        max_age_s=own.max_age_s,
        max_data_age_s=own.max_data_age_s,
        auth=source.auth or auth,
        auth_header=source.auth_header,
        licence=source.licence or found.licence,
        attribution=source.attribution or found.attribution,
        keep_days=found.keep_days if source.keep_days is None else source.keep_days,
        redistribute=found.redistribute if source.redistribute is None else source.redistribute,
        dated="" if source.location else found.dated,
        settings=source,
    )


def given(
    locations: Sequence[str],
    *,
    kind: str = "",
    fields: Mapping[str, str] | None = None,
    layer: str = "",
    sheet: str = "",
) -> tuple[Definition, ...]:
    """The sources of a state without any settings: the files that a person gave, by their absolute paths.

    Files of one name are told apart by a number after it.

    :raises SettingsError: if one is empty, given twice, or an address that is not https
    """
    found: list[Definition] = []
    for location in locations:
        refuse_location(location)
        if not location.lower().startswith(("https://", "http://")):
            location = os.path.abspath(os.path.expanduser(location))
        if any(each.location == location for each in found):
            raise SettingsError(f"{location!r:.200} is given twice: give each file once")
        names, name = {each.name for each in found}, name_of(location)
        if name in names:
            name = next(each for number in range(2, 2 + len(names)) if (each := f"{name[:28]}-{number}") not in names)
        how = Definition(
            name=name, kind=kind, location=location, fields=fields or {}, layer=layer, sheet=sheet, given=True
        )
        found.append(how)
    return tuple(found)


def name_of(location: str) -> str:
    """A name for a source that has none: the file's without its endings."""
    name = file_name(location).lower()
    while name.endswith(_ENDINGS):
        name = name[: -max(len(ending) for ending in _ENDINGS if name.endswith(ending))]
    name = re.sub(r"[^a-z0-9]+", "-", name).strip("-")[:32].strip("-")
    return "file" if name in ("", "custom", SERVICE) else name


def refuse_location(location: str) -> None:
    """Refuse what a person cannot have meant as a file or an address.

    :raises SettingsError: if it is empty, an address of another protocol than HTTP, or what can be read only once
    """
    if not location.strip():
        raise SettingsError("the name of the file is empty: give a file, a folder or an https address")
    scheme = _SCHEME.match(location)
    if scheme is not None and scheme[1].lower() not in ("https", "http"):
        raise SettingsError(
            f"{location!r:.80}: {scheme[1]}:// cannot be fetched: give a file, a folder or an https address"
        )
    # Its kind is told before it is read, and a later sync reads it again.
    is_stream = location == "-"
    if not is_stream and not location.lower().startswith(("https://", "http://")):
        with contextlib.suppress(OSError, ValueError):  # reading it says what is wrong
            mode = os.stat(os.path.expanduser(location)).st_mode
            is_stream = not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
    if is_stream:
        raise SettingsError(
            f"{location!r:.80}: a pipe or device cannot be a source, which is read more than once: save what comes "
            "from it in a file, and give that"
        )


def file_name(location: str) -> str:
    """The name of the file or folder that a path or address ends in."""
    return os.path.basename(re.split(r"[?#]", location)[0].rstrip("/"))


def stack(sources: Sequence[SourceSettings], remembered: Sequence[Mapping[str, Any]]) -> tuple[Definition, ...]:
    """The sources to pull, in order: those of the settings; without any, the files that were given earlier.

    ``remembered`` are CURRENT's entries.

    :raises SettingsError: if a preset is unknown, or nothing is configured and nothing was given
    """
    if sources:
        return tuple(define(source) for source in sources)
    found = tuple(
        Definition(
            name=str(entry["name"]),
            kind=str(entry.get("asked_kind", "")),
            location=str(entry["location"]),
            fields=dict(entry.get("fields", {})),
            layer=str(entry.get("asked_layer", "")),
            sheet=str(entry.get("asked_sheet", "")),
            given=True,
        )
        for entry in remembered
        if entry.get("given") and entry.get("location")
    )
    if found:
        return found
    raise SettingsError(
        "no source is configured: give a file (`geolookup sync FILE`), add one (`geolookup source add`), or set the "
        "`url` of a service"
    )
