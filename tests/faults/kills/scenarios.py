"""The commands that are stopped and cut off, each with the state that it begins with; what stands in a state."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack, redirect_stdout
from dataclasses import dataclass, field
from typing import Any

from geolookup.cli.app import run as run_here
from geolookup.lookup.engine import GeoLookup
from geolookup.model.errors import NoStateError
from geolookup.state.base.current import open_published
from geolookup.state.editor import Editor
from tests.faults.service_process import ROOT, ServiceProcess, stamped_csv
from tests.sites.netbox_server import TOKEN

ADDRESSES = ("10.1.1.1", "2001:db8::1", "11.1.1.1", "192.168.1.1", "172.16.0.1", "172.17.0.1", "10.77.0.1", "10.78.0.1")


@dataclass(frozen=True, slots=True)
class Facts:
    """What a state answers, and the custom geolocations as its edits leave them; None where nothing is published."""

    answers: dict[str, Any] | None
    custom: tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One command, the state that it begins with, and what comes next."""

    arguments: tuple[str, ...]
    prepare: Callable[["Workshop"], None]
    #: Ordinary runs after it: each must succeed, and temporaries are gone at the end.
    following: tuple[tuple[str, ...], ...]
    #: Whether the ordinary runs lead to the new state wherever this one was stopped.
    converges: bool = True
    #: Whether the service is to have the edits in the end.
    pushes: bool = False
    #: The exit statuses of a run in which a call fails.
    codes: tuple[int, ...] = (0, 1)


@dataclass(slots=True)
class Workshop:
    """Where one scenario is played: its folders and its service."""

    folder: str
    service: ServiceProcess
    #: What ends with the sweep.
    opened: ExitStack
    #: The custom geolocations that the service has before anything is pushed.
    known: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.known = {place["locid"] for place in self.service.custom()}

    @property
    def template(self) -> str:
        return os.path.join(self.folder, "before")

    @property
    def home(self) -> str:
        return os.path.join(self.folder, "state")

    def run(self, *arguments: str) -> None:
        """An ordinary run on the template, in this process."""
        os.environ["GEOLOOKUP_HOME"] = self.template
        with open(os.devnull, "w", encoding="utf-8") as nowhere, redirect_stdout(nowhere):
            code = run_here(list(arguments))
        assert code == 0, (arguments, code)

    def fresh(self) -> None:
        """The state and the service as they were before the command."""
        shutil.rmtree(self.home, ignore_errors=True)
        shutil.copytree(self.template, self.home)
        for place in self.service.custom():
            if place["locid"] not in self.known:
                self.service.delete(place["locid"])


def _empty(shop: Workshop) -> None:
    os.mkdir(shop.template)


def _two_generations(shop: Workshop) -> None:
    shop.run("sync")
    shop.service.load(stamped_csv("1"))
    shop.run("sync")


def _new_data(shop: Workshop) -> None:
    _two_generations(shop)
    shop.service.load(stamped_csv("2"))


def _edits(shop: Workshop) -> None:
    _two_generations(shop)
    shop.run("custom", "create", "--country", "DE", "--city", "ours", "--latitude", "1", "--longitude", "2")
    with Editor(shop.template) as editor:
        ours = next(laid.place.locid for laid in editor.custom() if laid.place.city == "ours")
    for block in ("172.16.0.0/16", "172.17.0.0/16"):
        shop.run("custom", "add-block", str(ours), block)


def _edits_and_new_data(shop: Workshop) -> None:
    _edits(shop)
    shop.service.load(stamped_csv("2"))


def _sites(shop: Workshop) -> None:
    """A server has other sites than those that were applied: one more, one moved, one gone, and one of a VRF."""
    _two_generations(shop)
    command = [sys.executable, "-m", "tests.sites.netbox_process"]
    server = shop.opened.enter_context(
        subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    )
    assert server.stdin is not None
    assert server.stdout is not None
    shop.opened.callback(server.stdin.close)
    token, settings = (os.path.join(shop.folder, name) for name in ("token", "sites.toml"))
    with open(token, "w", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
        file.write(TOKEN)
    with open(settings, "w", encoding="utf-8") as file:
        file.write(f'[sites]\nkind = "netbox"\nurl = "{server.stdout.readline().strip()}"\ntoken_file = "{token}"\n')
    os.environ["GEOLOOKUP_CONFIG"] = settings
    shop.opened.callback(os.environ.pop, "GEOLOOKUP_CONFIG")
    shop.run(*_APPLY)
    server.stdin.write("\n")
    server.stdin.flush()
    server.stdout.readline()


_APPLY = ("custom", "apply", "--from", "netbox")

SCENARIOS = {
    "first sync": Scenario(arguments=("sync",), prepare=_empty, following=(("sync",),)),
    "sync": Scenario(arguments=("sync",), prepare=_new_data, following=(("sync",),)),
    "push": Scenario(arguments=("push",), prepare=_edits, following=(("push",),), pushes=True),
    "refresh": Scenario(
        arguments=("refresh",), prepare=_edits_and_new_data, following=(("refresh",),), pushes=True
    ),
    "edit": Scenario(
        arguments=("custom", "add-block", "-1", "10.77.0.0/16"),
        prepare=_two_generations,
        following=(("custom", "add-block", "-1", "10.78.0.0/16"), ("sync",)),
        converges=False,
    ),
    # 2 if its settings, which are a file, cannot be read either.
    "sites": Scenario(arguments=_APPLY, prepare=_sites, following=(_APPLY, ("sync",)), codes=(0, 1, 2)),
    "rollback": Scenario(
        arguments=("generations", "rollback"), prepare=_two_generations, following=(("sync",),), converges=False
    ),
}  # fmt: skip


def facts(home: str) -> Facts:
    """What is there. Opens edits.db, so that SQLite settles a journal that was left."""
    try:
        open_published(home).close()  # without recovery: what CURRENT names is whole
    except NoStateError:
        return Facts(None, ())
    answers = {}
    with GeoLookup(home) as geo:
        for address in ADDRESSES:
            match = geo.match(address)
            if match is not None:
                answers[address] = (tuple(match.geolocation.fields().values()), match.first, match.last, match.layer)
    with Editor(home).rehearsal() as editor:  # all questions of one opened state: there are thousands of states
        places = [laid.place for laid in editor.custom()]
        places += [place for vrf in editor.vrfs() for place in editor.vrf_places(vrf).values()]
        custom = sorted((str(place.fields()), tuple(map(str, place.ipblocks))) for place in places)
        return Facts(answers, (*custom, *sorted(editor.sites()), *sorted(editor.time_zones().items())))
