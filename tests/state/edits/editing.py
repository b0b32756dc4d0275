"""What tests of the editor share: places, lookups, and what the service or a push would do to the outbox."""

from typing import Any

from geolookup.lookup.engine import GeoLookup
from geolookup.model.types import PROVISIONAL_LOCID
from geolookup.state.base.marks import Mark
from geolookup.state.editor import Editor
from geolookup.state.edits.outbox.row import State
from tests.support.data import stations
from tests.support.data.states import place

BERLIN: dict[str, Any] = {
    "country": "DE",
    "region": "BE",
    "city": "Berlin",
    "postalcode": "10115",
    "latitude": 52.5,
    "longitude": 13.4,
    "dmacode": "",
    "areacode": "030",
}
DEFAULTS = [place(1, "10.0.0.0/8", "2001:db8::/32"), place(2, "11.0.0.0/8")]


def located(home: str, address: str) -> int | None:
    """The locid that a lookup opened now finds."""
    with GeoLookup(home) as geo:
        found = geo.lookup(address)
    return None if found is None else found.locid


def content(editor: Editor) -> tuple[Any, ...]:
    """All that an edit changes."""
    return editor.custom(), editor.outbox(), editor.history(), editor.sites()


def acknowledge(home: str, **locids: int) -> None:
    """Have the service take every pending edit; ``p1=-7`` gives the first geolocation created here the locid -7."""
    stations.acknowledge(home, {PROVISIONAL_LOCID - int(name[1:]): number for name, number in locids.items()})


def conclude(home: str) -> Mark:
    """Read a list that is conclusive for all that the service acknowledged; its mark."""
    return stations.show(home)


def put(home: str, number: int, state: State) -> None:
    """Bring an edit to a station of its way."""
    stations.stand(home, number, state)
