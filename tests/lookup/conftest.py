"""What the tests of lookups share."""

from collections.abc import Iterator

import pytest

from geolookup.index.native import accelerator
from geolookup.lookup.engine import GeoLookup
from tests.support.data.states import place, publish


@pytest.fixture(
    params=[
        pytest.param("native", marks=pytest.mark.skipif(accelerator() is None, reason="it was not built here")),
        "python",
    ],
)
def reader(request: pytest.FixtureRequest, own_settings: None, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both readers, one after the other."""
    if request.param == "python":
        monkeypatch.setenv("GEOLOOKUP_PURE", "1")
    return str(request.param)


@pytest.fixture
def geo(home: str) -> Iterator[GeoLookup]:
    publish(
        home,
        [
            place(1, "8.0.0.0/8", "2001:db8::/32", country="US", latitude=37.5, longitude=-122.0),
            place(2, "8.8.8.0/24", country="DE"),
            place(-1, "8.8.0.0/16", country="FR", city="Paris"),
        ],
    )
    with GeoLookup(home) as opened:
        yield opened
