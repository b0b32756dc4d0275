"""The table of the facts, held against a real file's records."""

from pathlib import Path

import maxminddb
import pytest

from geolookup.lookup.record import Record
from geolookup.model.facts import FACT_NAMES, FACTS, NETWORK_FACTS, PLACE_FACTS, Fact
from geolookup.model.types import FLAT_NAMES

CITY = Path(__file__).parents[1] / "data" / "mmdb" / "GeoIP2-City-Test.mmdb"
TYPES = {"text": str, "boolean": bool, "uint16": int, "uint32": int}


def test_every_fact_of_a_place_stands_at_its_path_with_its_type_in_a_real_file() -> None:
    others = {
        name: fact for name, fact in PLACE_FACTS.items() if fact.path.split(".")[0] != "geolookup"
    }  # of our own custom layers
    found: dict[str, set[type]] = {name: set() for name in others}
    with maxminddb.open_database(str(CITY), maxminddb.MODE_MEMORY) as reader:
        for _, tree in reader:
            assert isinstance(tree, dict)
            record = Record.made(tree)
            for name, fact in others.items():
                value = record.find(fact.path)
                if value is not None:
                    found[name].add(type(value))
    assert found == {name: {TYPES[fact.kind]} for name, fact in others.items()}


def test_facts_have_names_and_paths_of_their_own_and_one_of_two_layers() -> None:
    assert len({*FACT_NAMES, *FLAT_NAMES}) == len(FACTS) + len(FLAT_NAMES)
    assert len({fact.path for fact in FACTS}) == len(FACTS)
    assert (*PLACE_FACTS.values(), *NETWORK_FACTS.values()) == FACTS
    assert all(fact.path.startswith("traits.") == (fact.layer == "network") for fact in FACTS)


def test_a_fact_stays_what_it_is() -> None:
    fact = Fact("asn", "uint32", "traits.autonomous_system_number", "network")
    with pytest.raises(AttributeError, match=r"asn\.kind"):
        fact.kind = "text"
