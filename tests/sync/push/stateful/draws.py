"""What a step of the push machine may be given: few values, so that equal ones meet often."""

from typing import Any

from hypothesis import strategies as st

from tests.oracle.outbox_model import Ends
from tests.sync.push.stateful.world import SETTLE_S

BLOCKS: list[Ends] = [
    ("10.0.0.0", "10.0.0.255"),
    ("10.0.0.0", "10.0.0.127"),
    ("10.0.0.64", "10.0.0.191"),
    ("10.0.0.10", "10.0.0.10"),
]
#: One that no filter can find, and two.
CITIES = ["", "Berlin", "Bonn"]
ANSWERS = [
    "",
    "lost",
    "dropped",
    "error",
    "failed",
    "nonsense",
    "wrong",
    "unsent",
    "denied",
    "busy:1",
    "busy:90",
    "killed",
    "killed-after",
    f"killed-late:{SETTLE_S / 2}",
    f"late:{SETTLE_S / 2}",
    f"late:{SETTLE_S * 3}",
]

cities = st.sampled_from(CITIES)
blocks = st.sampled_from(BLOCKS)
indexes = st.integers(0, 5)
#: A point of a short action, of a pull, or of a push, whose first request comes after some thirty others.
crashes = st.one_of(st.none(), st.none(), st.integers(0, 12))
pull_crashes = st.one_of(st.none(), st.none(), st.integers(0, 30))
push_crashes = st.one_of(st.none(), st.integers(0, 30), st.integers(25, 120))
answer = st.sampled_from(ANSWERS)
answers = st.lists(answer, max_size=4)
decisions_on_conflicts = st.sampled_from(["hold", "hold", "theirs", "mine"])
seconds = st.sampled_from([1.0, SETTLE_S / 2, SETTLE_S + 1, SETTLE_S + 1, 90000.0])


def fields_of(city: str) -> dict[str, Any]:
    """The fields of a geolocation in that city. All are at one place, and the one without a city is in no country."""
    texts = {"country": "DE" if city else "", "region": "", "city": city, "postalcode": ""}
    return {**texts, "latitude": 1.0, "longitude": 2.0, "dmacode": "", "areacode": ""}
