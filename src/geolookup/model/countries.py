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


def wrong_country(text: str, whose: str = "its") -> str | None:
    """Why a person cannot mean a text as a country; None if they can, and if it is empty."""
    return not_a_code(text, whose) if text and not is_code(text) else None


def not_a_code(text: str, whose: str = "its") -> str:
    """Why a text is not a country, and the code to write in its place if that is known."""
    code = _codes().get(_plain(text))
    return f"{whose} country {text!r:.40} is not a code of two letters" + (f": write {code}" if code else "")


def country_in_words(name: str) -> str:
    """The code of the country of this English name, or ""."""
    return _codes().get(_plain(name), "")


def _plain(name: str) -> str:
    """A name without what people write differently: capitals, accents, dots, `&`, a leading article."""
    letters = unicodedata.normalize("NFKD", name.casefold().replace("&", " and "))
    words = "".join(letter if letter.isalnum() else " " for letter in letters if not unicodedata.combining(letter))
    return " ".join(words.split()).removeprefix("the ")


@functools.cache
def _codes() -> dict[str, str]:
    """The code of each country by its plain English name."""
    table = importlib.resources.files("geolookup_data").joinpath("rir-country-names.csv")
    rows = csv.DictReader(table.read_text("utf-8").splitlines())
    return {_plain(row["name"]): row["country"] for row in rows}
