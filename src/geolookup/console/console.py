"""The console that every page works with: the state, its editor and custom layer, the session, the runs."""

import contextlib
import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import urlencode

from litestar import Response

from geolookup.base.version import __version__
from geolookup.console import files
from geolookup.console.entry import Session, person_of
from geolookup.console.forms import TOKEN, AnyRequest, query
from geolookup.console.html import Templates
from geolookup.console.runs import Runs, Work
from geolookup.lookup.engine import GeoLookup
from geolookup.model.errors import GeoLookupError, StateBusyError
from geolookup.model.linter import Finding, lint
from geolookup.model.types import Geolocation
from geolookup.settings.table import Settings
from geolookup.state.base.actor import who
from geolookup.state.editor import Editor
from geolookup.state.edits.layer import Laid
from geolookup.state.edits.outbox.row import PENDING_STATES, PERSON_STATES, State
from geolookup.state.publishing.directory import StateDirectory
from geolookup.sync import opening
from geolookup.sync.belonging import settings_of
from geolookup.sync.opening import edit_or_build

#: The answer of a page's handler.
Html: TypeAlias = Response[str]

#: Messages kept for the pages that a write leads to: the oldest is forgotten first.
_MAX_TOLD = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page that the navigation leads to."""

    title: str
    path: str
    #: Its drawing in ``templates/icons.html``.
    icon: str
    #: The addresses of pages that it leads to, and that are not below its own.
    parts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomLayer:
    """All custom geolocations of one moment, newest last, with what the linter finds about them.

    ``of_vrfs`` are the sites of routing domains (VRFs), and ``vrfs`` the VRF of each by its locid. ``names`` and
    ``zones`` are those of sites, of VRFs too, by locid; ``edits`` counts those of the outbox by their state,
    ``pending`` those on their way, and ``decide`` those of them that wait for a person.
    """

    laid: list[Laid]
    of_vrfs: list[Laid]
    vrfs: dict[int, str]
    findings: list[Finding]
    names: dict[int, str]
    zones: dict[int, str]
    edits: dict[State, int]
    pending: int
    decide: int

    @property
    def every(self) -> list[Laid]:
        """The sites of the global table, and those of VRFs."""
        return [*self.laid, *self.of_vrfs]

    def of_vrf(self, vrf: str) -> list[Laid]:
        """The sites of a VRF; of the global table, if it is empty."""
        return [laid for laid in self.of_vrfs if self.vrfs[laid.place.locid] == vrf] if vrf else self.laid

    def find(self, locid: int) -> Laid | None:
        """One of them by its number."""
        return next((each for each in self.every if each.place.locid == locid), None)


class _LayerCache:
    """The custom layer of one state, kept until it changes: laying thousands of edits takes a second.

    Pages show it. An edit never takes its geolocation from here: it reads the state.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: tuple[object, CustomLayer] | None = None
        #: By its name each VRF as an edit left it: its revision, its places and their time zones, by their names;
        #: and the file that they are from.
        self._vrfs: dict[str, tuple[int, dict[str, Geolocation], dict[str, str]]] = {}
        self._file = 0

    def get(self, directory: StateDirectory, editor: Editor) -> CustomLayer:
        """The layer as it is now."""
        with self._lock:
            key = (directory.require_current().sequence, directory.edits.stamp())
            if self._found is None or self._found[0] != key:
                file, *_ = directory.edits.stamp()[0] or (0,)
                if file != self._file:  # a state that is restored counts again from where it was
                    self._vrfs, self._file = {}, file
                with editor.rehearsal():
                    laid, gone, sites = editor.custom(), editor.gone(), editor.sites()
                    edits = editor.sessions.ask(lambda session: {each: session.outbox.count(each) for each in State})
                    waits, zones = editor.has_service(), editor.time_zones()
                    self._read_vrfs(editor)
                in_vrfs = [
                    (vrf, name, place, zones.get(name, ""))
                    for vrf, (_, places, zones) in sorted(self._vrfs.items())
                    for name, place in places.items()
                ]
                found = CustomLayer(
                    laid=laid,
                    of_vrfs=[Laid(place=place) for _, _, place, _ in in_vrfs],
                    vrfs={place.locid: vrf for vrf, _, place, _ in in_vrfs},
                    findings=lint([each.place for each in laid], gone=gone),
                    names={locid: name for name, locid in sites.items()}
                    | {place.locid: name for _, name, place, _ in in_vrfs},
                    zones={sites[name]: zone for name, zone in zones.items() if name in sites}
                    | {place.locid: zone for _, _, place, zone in in_vrfs},
                    edits=edits,
                    pending=sum(edits[each] for each in PENDING_STATES) if waits else 0,
                    decide=sum(edits[each] for each in PERSON_STATES) if waits else 0,
                )
                self._found = (key, found)
            return self._found[1]

    def _read_vrfs(self, editor: Editor) -> None:
        """Read the VRFs that were changed: there may be a million networks in others."""
        revisions = editor.sessions.ask(lambda session: session.vrfs.revisions())
        self._vrfs = {
            vrf: known
            if (known := self._vrfs.get(vrf)) is not None and known[0] == revision
            else (revision, editor.vrf_places(vrf), editor.vrf_time_zones(vrf))
            for vrf, revision in revisions.items()
        }


class Console:
    """One console. Threads may share it.

    ``settings`` are read for each request that needs them, since a command may change them meanwhile. The state is
    ``home``, or the one that the settings name.
    """

    def __init__(self, settings: Callable[[], Settings], *, home: str | None = None, read_only: bool = False) -> None:
        self.settings = settings
        self.read_only = read_only
        self.session = Session()
        #: Set once it is closed.
        self.ends = threading.Event()
        self.runs = Runs()
        self.templates = Templates()
        self.navigation: tuple[Page, ...] = ()
        self._home = home
        self._geo: GeoLookup | None = None
        self._lock = threading.Lock()
        self._layer = _LayerCache()
        self._editor: tuple[str, Editor] | None = None
        self._told: dict[str, str] = {}
        self._made: dict[str, str] = {}
        #: The sheet that was uploaded last: there is one browser.
        self.sheet: Any = None
        self.templates.say(
            version=__version__,
            read_only=read_only,
            form_token=self.session.form_token,
            form_token_name=TOKEN,
            static=files.address,
        )

    @property
    def home(self) -> str:
        """The state directory."""
        return self._home or self.settings().state_home()

    def geo(self) -> GeoLookup:
        """The lookups of the state in the global table, which follow what is published; from the first call on, until
        the end.

        :raises NoStateError: if a service is configured and nothing has been pulled from it yet
        """
        with self._lock:
            if self._geo is None:
                self._geo = opening.open_or_build(self.home, settings=self.settings(), vrf="")
            return self._geo

    def editor(self) -> Editor:
        """The editor of the state, which keeps the layer from one request to the next.

        :raises NoStateError: as `geo`
        """
        home = self.home
        found = edit_or_build(home, settings=self.settings())  # what is there may have become a reader of a fleet
        with self._lock:
            if self._editor is None or self._editor[0] != home:
                self._editor = home, found
            return self._editor[1]

    def layer(self) -> CustomLayer:
        """The custom layer, to be shown.

        :raises NoStateError: as `geo`
        """
        return self._layer.get(self.directory(), self.editor())

    def directory(self) -> StateDirectory:
        """The state directory, for work of neither an editor nor a lookup."""
        return StateDirectory(self.home, keep_generations=self.settings().keep_generations)

    def settings_of_state(self) -> Settings:
        """The settings, for what pulls and pushes: their service only if it is this state's."""
        return settings_of(self.settings(), self.directory())

    def warm_up(self) -> None:
        """Open what the first page needs; make nothing new."""
        with contextlib.suppress(GeoLookupError):  # the first page says what is wrong
            if self.directory().current() is not None:
                self.geo()
                self.layer()

    def close(self) -> None:
        """Close the lookups. Runs under way go on: see `Runs.wait`."""
        self.ends.set()
        with self._lock:
            geo, self._geo = self._geo, None
        if geo is not None:
            geo.close()

    def made_once(self, number: str) -> str | None:
        """The address of the result of a form with this number, if it was sent before."""
        return self._made.get(number)

    def remember_made(self, number: str, path: str) -> None:
        """Remember the result of a form, so that the same form sent again makes nothing."""
        _keep(self._made, number, path, self._lock)

    def start(self, kind: str, work: Work, path: str) -> Html:
        """Start a run, and lead to the page of its progress; to that of the first, if one is under way."""
        try:
            self.runs.start(kind, work)
        except StateBusyError as error:
            return self.go(path, f"{error.told}.")
        return self.go(path)

    def page(self, request: AnyRequest, template: str, status: int = 200, /, **values: Any) -> Html:
        """A page from a template, which gets ``values`` and its own path."""
        text = self.templates.render(template, **self.of_every_page(request), **values)
        return Response(text, status_code=status, media_type="text/html")

    def of_every_page(self, request: AnyRequest) -> dict[str, Any]:
        """The values that the template of every page has."""
        return {
            "navigation": self.navigation,
            "path": request.url.path,
            "here": _here(request),
            "told": self._told.get(query(request, "told")),
            "me": who(),
            "asks_name": person_of(request.headers.get("cookie", "")) is None,
        }

    def go(self, path: str, told: str | None = None) -> Html:
        """Redirect to another page after a write; that page says what was done."""
        if told is not None:
            number = secrets.token_urlsafe(6)
            _keep(self._told, number, told, self._lock)
            path = f"{path}{'&' if '?' in path else '?'}told={number}"
        return Response("", status_code=303, headers={"location": path}, media_type="text/html")


def _here(request: AnyRequest) -> str:
    """The address of a page without what it says of the last write."""
    given = [(name, text) for name, text in request.query_params.multi_items() if name != "told"]
    return f"{request.url.path}?{urlencode(given)}" if given else request.url.path


def _keep(kept: dict[str, str], number: str, text: str, lock: threading.Lock) -> None:
    with lock:
        kept[number] = text
        while len(kept) > _MAX_TOLD:
            del kept[next(iter(kept))]
