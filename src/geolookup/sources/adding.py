"""A source that is to be added: its table in the settings, and what can be checked of it before it is pulled."""

import difflib
import os
import re
from typing import Any

from geolookup.model.errors import SettingsError
from geolookup.settings.secrets import holds_secret, read_source_secret
from geolookup.settings.source import SourceSettings
from geolookup.sources.definition import TOKEN, Definition, name_of
from geolookup.sources.detect import named, open_source
from geolookup.sources.providers import PRESETS, preset
from geolookup.state.base.clock import wall

#: The name and the kind of the bundled data.
REGISTRY = "registry"
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_PLACEHOLDERS = ("YYYY", "MM", "DD", "token")


def new_values(location: str, name: str | None, kind: str | None, fields: dict[str, str]) -> dict[str, Any]:
    """The values in the table of a new source, without the options that were not given."""
    values: dict[str, Any] = {"name": name or ""}
    if location == REGISTRY:
        values |= {"name": name or REGISTRY, "kind": REGISTRY}
    elif any(found.name == location for found in PRESETS):
        values |= {"name": name or location, "preset": location}
    else:
        remote = "://" in location
        values |= {
            "name": name or name_of(_PLACEHOLDER.sub("", location)),
            "location": location if remote else os.path.abspath(os.path.expanduser(location)),
        }
    if kind:
        values["kind"] = kind
    if fields:
        values["fields"] = fields
    return values


def refuse_what_cannot_be_pulled(given: str, source: SourceSettings, found: Definition) -> None:
    """Open a file; check what can be checked of an address without asking the network.

    :raises SettingsError: if a secret is missing, cannot be read, is there for others too, or is not of its form
    :raises DataFileError: if the file cannot be read, or fits no kind
    """
    for placeholder in _PLACEHOLDER.findall(found.location):
        if placeholder not in _PLACEHOLDERS:
            known = ", ".join(f"{{{name}}}" for name in _PLACEHOLDERS)
            raise SettingsError(f"location: {{{placeholder}}} is unknown: there are {known}")
    secret = read_source_secret(source)
    if found.auth == "basic" and secret is not None and ":" not in secret:
        raise SettingsError(f"{source.token_file}: must hold account:key, since that is how this secret travels")
    if found.kind == REGISTRY:
        return
    if found.kind:
        named(found.kind)
    if found.is_remote:
        if holds_secret(found.location):
            raise SettingsError(
                "location: a secret must not stand here: put it in a file of mode 0600, name that file with "
                "--token-file, and write {token} in its place (or use --auth basic)"
            )
        provider = preset(source.preset) if source.preset else None
        needs = TOKEN in found.location or (provider is not None and provider.auth != "none")
        if needs and not secret:
            more = f": how to get one is said at {provider.documentation}" if provider else ""
            raise SettingsError(f"source {found.name}: it needs a secret, in a file named with --token-file{more}")
    else:
        (path,) = found.addresses(wall().date(), None)[:1]
        if not {os.sep, "."} & set(given) and not os.path.exists(path):
            presets = [each.name for each in PRESETS] + [REGISTRY]
            near = difflib.get_close_matches(given, presets, 1)
            more = f"did you mean {near[0]}?" if near else f"the presets are {', '.join(presets)}"
            raise SettingsError(f"{given!r:.80} is neither a file nor a preset: {more}")
        open_source(path, kind=found.kind or None, fields=found.fields, sheet=found.sheet).close()
