"""Draw the pages of the console for docs/pictures, light and dark: ``make pictures``. Needs Chromium."""

import sys
import tempfile
from pathlib import Path
from typing import Any

from geolookup.console import app
from geolookup.settings.table import Settings
from geolookup.state.publishing.directory import StateDirectory
from geolookup.sync.opening import open_editor
from geolookup.sync.pull.pull import pull
from geolookup.sync.push.push import push
from tests.console import components
from tests.support.services.running_service import FIELDS, RunningService
from tests.support.users import browser as browsers
from tests.support.users.running_console import RunningConsole

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"
_SIZE = {"width": 1000, "height": 640}
#: Sections of the page of components, by the picture that has them.
_COMPONENTS = {"text": ("text", "buttons", "cards"), "forms": ("tables", "forms"), "states": ("states",)}

_DEFAULTS = """\
locid,country,region,city,postalcode,latitude,longitude,dmacode,areacode,startip,endip
1,US,TX,Austin,78701,30.25,-97.75,635,512,192.0.2.0,192.0.2.127
2,FR,IDF,Paris,75001,48.86,2.35,,,198.51.100.0,198.51.100.255
3,DE,BE,Berlin,10115,52.52,13.4,,,203.0.113.0,203.0.113.255
4,JP,13,Tokyo,,35.68,139.69,,,2001:db8::,2001:db8::ffff
"""
_SITES = (
    ("DE", "BY", "München", 48.14, 11.58, "10.1.0.0/16"),
    ("FR", "ARA", "Lyon", 45.76, 4.84, "10.2.0.0/16"),
    ("US", "TX", "Round Rock", 30.51, -97.68, "192.0.2.0/26"),
    ("BR", "SP", "São Paulo", -23.55, -46.63, "10.3.0.0/16"),
    ("IN", "KA", "Bengaluru", 12.97, 77.59, "10.4.0.0/17"),
    ("AU", "NSW", "Sydney", -33.87, 151.21, "10.4.128.0/17"),
)


def _place(country: str, region: str, city: str, latitude: float, longitude: float) -> dict[str, Any]:
    nothing = dict.fromkeys(("postalcode", "dmacode", "areacode"), "")
    return {**nothing, "country": country, "region": region, "city": city, "latitude": latitude, "longitude": longitude}


def main() -> int:
    """Draw them all."""
    FOLDER.mkdir(exist_ok=True)
    app._BEHIND = (*app._BEHIND, components)
    with tempfile.TemporaryDirectory() as folder, browsers.running() as browser:
        csv = Path(folder, "defaults.csv")
        csv.write_text(_DEFAULTS, encoding="utf-8")
        with RunningService(Path(folder, "service.db"), load=[csv]) as service:
            locids = [service.create(block_of(site[5]), **_place(*site[:5])) for site in _SITES[:3]]
            settings = Settings(url=service.url, attempts=1)
            home = Path(folder, "home")
            directory = StateDirectory(str(home))
            pull(directory, settings)
            held = _conflict(service, directory, settings, locids[1])
            with open_editor(home, settings=settings) as editor:
                for site in _SITES[3:]:
                    editor.create(name=f"{site[2]} office", blocks=[site[5]], **_place(*site[:5]))  # type: ignore[typeddict-item] # whole
            with RunningConsole(home, settings=lambda: settings) as console:
                _draw(console, browser, held, locids[0])
    return 0


def block_of(network: str) -> tuple[str, str]:
    """The two ends of a network."""
    import ipaddress

    found = ipaddress.ip_network(network)
    return str(found[0]), str(found[-1])


def _conflict(service: RunningService, directory: StateDirectory, settings: Settings, locid: int) -> int:
    """An edit that the next push holds; its number."""
    with open_editor(directory.home, settings=settings) as editor:
        editor.update(locid, city="Villeurbanne", postalcode="69100")
        number = editor.pending()[-1].id
    with service.client() as client:
        body = {**FIELDS, **_place("FR", "ARA", "Bron", 45.74, 4.91)}
        client.put(f"/geolocations?locid={locid}", json=body).raise_for_status()
    push(directory, settings)
    return number


def _draw(console: RunningConsole, browser: Any, held: int, locid: int) -> None:
    pages = {
        "home": "/",
        "look-up": "/?q=192.0.2.5",
        "map": "/map",
        "sites": "/custom",
        "site-form": "/custom/create",
        "preview": f"/custom/{locid}/delete",
        "changes": "/outbox",
        "conflict": f"/outbox/{held}",
        "versions": "/generations",
        "sources": "/sources",
    }
    for scheme in ("light", "dark"):
        watched = console.tab(browser, viewport=_SIZE, color_scheme=scheme)
        tab = watched.page()
        for name, path in pages.items():
            answer = tab.goto(console.url + path)
            if answer.status != 200:
                print(f"{path}: {answer.status}: no picture", file=sys.stderr)
                continue
            tab.wait_for_load_state("networkidle")
            tab.screenshot(path=FOLDER / f"{name}-{scheme}.png")
        tab.goto(f"{console.url}/components")
        for name, sections in _COMPONENTS.items():
            boxes = [tab.locator(f"#{each}").bounding_box() for each in sections]
            clip = {"x": 0, "y": boxes[0]["y"], "width": _SIZE["width"]}
            clip["height"] = boxes[-1]["y"] + boxes[-1]["height"] - clip["y"] + 16
            tab.screenshot(path=FOLDER / f"components-{name}-{scheme}.png", clip=clip, full_page=True)
        watched.close()
    watched = console.tab(browser, viewport={"width": 390, "height": 800})
    tab = watched.page()
    tab.goto(f"{console.url}/custom")
    tab.screenshot(path=FOLDER / "sites-phone-light.png")
    watched.close()


if __name__ == "__main__":
    sys.exit(main())
