"""The service of the settings, and the states that it belongs to: one settings file may be read for several states."""

import contextlib
import logging
import os
from collections.abc import Callable, Iterator

import msgspec

from geolookup.model.errors import GeoLookupError, StateError
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


#: The word of the history for a change of the sources or of their order.
SOURCES = "sources"
_log = logging.getLogger("geolookup")


@contextlib.contextmanager
def noted(directory: Callable[[], StateDirectory], settings: Callable[[], Settings]) -> Iterator[None]:
    """Note in the history how a ``with`` changes the sources of the settings, if the state has a history yet."""

    def names() -> list[str] | None:
        with contextlib.suppress(GeoLookupError):  # what is wrong with them may be what is changed
            return [source.name for source in settings().stack]
        return None

    before = names()
    yield
    if None in (before, after := names()) or before == after:
        return
    try:
        if directory().current_or_none() is not None:
            directory().edits.record(SOURCES, "done", before={SOURCES: before}, after={SOURCES: after})
    except StateError as error:
        _log.warning("the change of the sources is missing from the history, and all else is done: %s", error)
