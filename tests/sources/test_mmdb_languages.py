"""Names of an MMDB in one other language than English."""

from pathlib import Path

from tests.support.data.source_files import mmdb, read_all


def test_names_in_one_other_language_are_names(tmp_path: Path) -> None:
    record = {
        "country": {"iso_code": "DE"},
        "city": {"names": {"de": "München"}},
        "subdivisions": [{"names": {"de": "Bayern"}}],
    }
    both = {"country": {"iso_code": "DE"}, "city": {"names": {"de": "Köln", "en": "Cologne"}}}
    mmdb({"8.0.0.0/24": record, "8.0.1.0/24": both, "8.0.2.0/24": {**both, "city": {"names": {}}}}, tmp_path, version=4)
    found, _ = read_all(tmp_path / "written.mmdb")
    places = [place for _, _, place in found if place is not None]
    assert [(place.city, place.region) for place in places] == [("München", "Bayern"), ("Cologne", ""), ("", "")]
