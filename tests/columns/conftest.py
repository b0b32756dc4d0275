"""A state with both layers and both families, and a GeoLookup of it, with and without the accelerator."""

from collections.abc import Iterator

import pytest

from geolookup.lookup.engine import GeoLookup
from tests.support.data.states import place, publish

PLACES = [
    place(1, "8.0.0.0/8", "2001:db8::/32", country="US", region="CA", latitude=37.5, longitude=-122.0),
    place(2, "9.0.0.0/8", "2001:db8:0:1::8-2001:db8:0:1::f", country="DE", city="Köln"),
    place(3, "10.0.0.0/8", country="US", city='"a", b\n', areacode="US"),
    place(-1, "8.8.0.0/16", "2001:db8:8::/48", country="FR", city="Orléans", longitude=1.5, latitude=47.9),
    place(-2, "11.0.0.0/24", country="US", city="Köln"),
]


@pytest.fixture
def state(home: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The state directory, which is also that of the settings."""
    publish(home, PLACES)
    monkeypatch.setenv("GEOLOOKUP_HOME", home)
    return home


@pytest.fixture
def geo(state: str) -> Iterator[GeoLookup]:
    """Open on that state."""
    with GeoLookup(state) as opened:
        yield opened


@pytest.fixture(params=["accelerated", "pure"])
def either_geo(request: pytest.FixtureRequest, state: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[GeoLookup]:
    """Open on that state, by whatever searches; the accelerator only where it was built."""
    from geolookup.index import native

    if request.param == "pure":
        monkeypatch.setenv("GEOLOOKUP_PURE", "1")
    elif native.accelerator() is None:
        pytest.skip("the accelerator was not built")
    with GeoLookup(state) as opened:
        yield opened
