"""The service of the settings, and the states that it belongs to: one settings file may be read for several states."""

import os

import msgspec

from geolookup.settings.table import Settings
from geolookup.state.publishing.directory import StateDirectory


def settings_of(settings: Settings, directory: StateDirectory, *, files: bool = False) -> Settings:
    """The settings without the ``url`` of their file, if that is not this state's service.

    It is the service of a state that was synced with a service, or to which edits went, and of one without sources
    unless ``files`` are about to become its sources. A state that follows files that it was given stays with them.
    ``GEOLOOKUP_URL`` names this state's service; only ``files`` go before it.
    """
    if settings.url is None or settings.sources or (os.environ.get("GEOLOOKUP_URL") and not files):
        return settings
    current = directory.named_current()
    entries = () if current is None else current.sources
    follows_files = files or any(entry.get("given") for entry in entries)
    if not follows_files or directory.upstream_url() is not None:
        return settings
    return msgspec.structs.replace(settings, url=None)
