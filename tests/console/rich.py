"""A state with something on every page: a service, hostile texts, edits in every state, a conflict."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from geolookup.settings.table import Settings
from geolookup.state.publishing.directory import StateDirectory
from geolookup.sync.opening import open_editor
from geolookup.sync.pull.pull import pull
from geolookup.sync.push.push import push
from tests.support.data.two_sources import NOTHING
from tests.support.services.running_service import FIELDS, RunningService
from tests.support.services.service_fixtures import DEFAULTS
from tests.support.users.running_console import RunningConsole

#: What somebody may have put into the service: markup, quotes, a template, bidirectional marks, and a lot of text.
HOSTILE = (
    "<script>window.attacked = 1</script>",
    "\"><img src=x onerror='window.attacked = 1'>",
    "' onfocus=window.attacked=1 autofocus '",
    "{{ 7 * 7 }}${7*7}",
    "\u202eevil\u2066\u0007",
    "</title></textarea></select><b>",
    "javascript:window.attacked=1",
    "W" * 255,
)


@dataclass(frozen=True)
class Rich:
    """The console, its service, and the numbers of what is in it."""

    console: RunningConsole
    service: RunningService
    settings: Settings
    hostile: tuple[int, ...]
    created: int
    held: int
    queued: int

    def paths(self) -> tuple[str, ...]:
        """Every page, each with something on it."""
        one = f"/custom/{self.hostile[0]}"
        return (
            "/",
            "/?q=10.1.0.1",
            "/?q=10.0.0.0/12",
            "/?q=nonsense",
            "/?q=10.1.0.1+203.0.113.9,+10.0.0.0/12+nonsense",
            "/custom",
            "/custom?find=nothing",
            one,
            f"/custom/{self.created}",
            "/custom/create",
            f"{one}/update",
            f"{one}/rename",
            f"{one}/add-block",
            f"{one}/delete",
            "/outbox",
            "/outbox?state=all",
            "/outbox/plan",
            f"/outbox/{self.held}",
            f"/outbox/{self.held}/edit",
            f"/outbox/{self.held}/drop",
            "/outbox/push",
            "/map",
            "/map?show=default",
            "/generations",
            "/generations/diff",
            "/sources",
            "/sources/add",
            "/custom/sheet",
            "/custom/undo",
            "/history",
            "/export",
            "/backups",
            "/?q=evil",
            "/nothing",
        )


@contextmanager
def rich(folder: Path, **options: Any) -> Iterator[Rich]:
    """Make it, in an empty folder."""
    csv = folder / "defaults.csv"
    csv.write_text(DEFAULTS)
    home = str(folder / "home")
    with RunningService(folder / "service.db", load=[csv]) as service:
        hostile = tuple(
            service.create((f"10.{number}.0.0", f"10.{number}.255.255"), city=text, region=text, latitude=float(number))
            for number, text in enumerate(HOSTILE, start=1)
        )
        settings = Settings(url=service.url, attempts=1)
        directory = StateDirectory(home)
        pull(directory, settings)
        with open_editor(home, settings=settings) as editor:
            editor.update(hostile[1], dmacode="1")
        with service.client() as client:
            body = {**FIELDS, "city": HOSTILE[0], "dmacode": "2"}
            client.put(f"/geolocations?locid={hostile[1]}", json=body).raise_for_status()
        with RunningConsole(home, settings=lambda: settings, **options) as console:
            run = console.console.runs.start("push", lambda run: push(directory, settings, progress=run.progress))
            console.console.runs.wait()
            assert run.error is None
            with open_editor(home, settings=settings) as editor:
                locid = editor.create(**{**NOTHING, "city": HOSTILE[1], "postalcode": HOSTILE[4], "region": "M" * 1000})
                editor.add_block(locid, "10.200.0.0/16")
                editor.add_block(hostile[0], "10.1.0.0/17")
                (held,) = [row.id for row in editor.pending() if row.state == "held"]
                queued = editor.pending()[-1].id
            yield Rich(console, service, settings, hostile, locid, held, queued)
