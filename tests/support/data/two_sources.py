"""A state of two sources with a custom block above them."""

from pathlib import Path
from typing import Any

from geolookup.sync.opening import open_editor
from tests.exports.states import publish_sources

#: A place of which little is known.
NOTHING: dict[str, Any] = {
    **dict.fromkeys(("country", "region", "city", "postalcode", "dmacode", "areacode"), ""),
    "latitude": 1.5,
    "longitude": 2.5,
}
#: Our own places, each with its block.
OWN: tuple[tuple[dict[str, Any], str], ...] = (
    ({"country": "DE", "city": "Berlin", "latitude": 52.5, "longitude": 13.4}, "10.20.0.0/16"),
    ({"country": "US", "region": "TX", "city": "Austin", "dmacode": "635"}, "44.10.20.0/24"),
)
#: The editions that a share of it builds.
NAMES = ("GeoLite2-City", "GeoLite2-Country")


def state(folder: Path, *, redistribute: bool = True) -> str:
    """The home of a state: 10.20.0.0/16 is ours, in private space, and so is 44.10.20.0/24, in public space."""
    home = str(folder / "home")
    publish_sources(home, folder, redistribute=redistribute)
    with open_editor(home) as editor:
        for fields, block in OWN:
            editor.add_block(editor.create(**{**NOTHING, **fields}), block)
    return home
