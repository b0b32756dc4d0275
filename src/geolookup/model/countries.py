"""Country codes: a code of two letters (ISO 3166-1). A name in words is not one, but tells which was meant."""

import csv
import functools
import importlib.resources
import unicodedata

_CODE_LETTERS = 2


def is_code(text: str) -> bool:
    """True if it has the form of a code; registries and providers use some that ISO 3166-1 does not list."""
    return len(text) == _CODE_LETTERS and text.isascii() and text.isalnum()


def in_capitals(text: str) -> str:
    """A country code in capitals, as programs compare it; any other text as it came."""
    return text.upper() if is_code(text) else text


def code_of(text: str) -> str:
    """The code of a country that a person wrote, in capitals, or by a name; any other text as it came."""
    return in_capitals(text) if is_code(text) else country_in_words(text) or text


def wrong_country(text: str, whose: str = "its") -> str | None:
    """Why a person cannot mean a text as a country; None if they can, and if it is empty."""
    if not text or is_code(text):
        return None
    told = f"no country is called {text!r:.40}: write its code of two letters, such as DE"
    return not_a_code(text, whose) if country_in_words(text) else told


def not_a_code(text: str, whose: str = "its") -> str:
    """Why a text is not a country, and the code to write in its place if that is known."""
    code = country_in_words(text)
    return f"{whose} country {text!r:.40} is not a code of two letters" + (f": write {code}" if code else "")


def country_in_words(name: str) -> str:
    """The code of the country that has this name in one of eight languages; "" if none has, or several have."""
    return _codes().get(_plain(name), "")


#: Names that people use, beside those of the tables.
_SHORT = {
    "usa": "US", "u s a": "US", "u s": "US", "united states of america": "US", "uk": "GB", "u k": "GB",
    "great britain": "GB", "england": "GB", "grossbritannien": "GB", "grande bretagne": "GB", "holland": "NL",
    "uae": "AE", "czech republic": "CZ", "tschechische republik": "CZ", "turkei": "TR", "turkey": "TR",
}  # fmt: skip


def _plain(name: str) -> str:
    """A name without what people write differently: capitals, accents, dots, `&`, a leading article."""
    letters = unicodedata.normalize("NFKD", name.casefold().replace("&", " and "))
    words = "".join(letter if letter.isalnum() else " " for letter in letters if not unicodedata.combining(letter))
    return " ".join(words.split()).removeprefix("the ")


@functools.cache
def _codes() -> dict[str, str]:
    """The code of each country by its plain name: those of the registries, and of CLDR in eight languages.

    A name that means two countries is left out.
    """
    found: dict[str, set[str]] = {name: {code} for name, code in _SHORT.items()}
    for row in _rows("rir-country-names.csv"):
        found.setdefault(_plain(row["name"]), set()).add(row["country"])
    for row in _rows("country-names.csv"):
        if row["kind"] == "country":
            for name in (value for key, value in row.items() if key not in _NO_NAMES):
                found.setdefault(_plain(name), set()).add(row["code"])
    return {name: min(codes) for name, codes in found.items() if name and len(codes) == 1}


_NO_NAMES = ("kind", "code", "geoname_id", "time_zone")


def _rows(table: str) -> "csv.DictReader[str]":
    text = importlib.resources.files("geolookup_data").joinpath(table).read_text("utf-8")
    return csv.DictReader(text.splitlines())
