"""What one explanation walks through: it asks what is open, and each file once."""

import pytest

from geolookup.lookup.engine import GeoLookup
from tests.support.data.states import place, publish
from tests.support.walks import walked

pytestmark = pytest.mark.usefixtures("own_settings")


def test_an_explanation_opens_no_index_again_and_reads_the_edits_once_if_custom_geolocations_answer(home: str) -> None:
    publish(home, [place(1, "8.0.0.0/8", country="US")])
    found = walked(home, "explained", "8.8.8.8")
    assert (found["opened"], sum(found["databases_opened"].values())) == ({}, 1)
    assert found["moves"] <= 35
    with GeoLookup(home) as geo, geo.edit() as editor:
        made = editor.create(
            country="DE", region="", city="", postalcode="", latitude=1.0, longitude=2.0, dmacode="", areacode=""
        )
        editor.add_block(made, "8.8.0.0/16")
    found = walked(home, "explained", "8.8.8.8")
    assert (found["opened"], sum(found["databases_opened"].values())) == ({}, 3)
    assert found["moves"] <= 107
