"""The postal code and the city that a postal address in one text has, where it is written as its country writes it."""

import re
from typing import Final

_CITY: Final = r"(?P<city>[^\W\d_][^\d,;]*?)"
#: City, state and ZIP code; a state of two letters is part of it.
_AMERICAN: Final = re.compile(rf"{_CITY},?\s+[A-Z]{{2}}\.?\s+(?P<code>\d{{5}}(?:-\d{{4}})?)")
_CANADIAN: Final = re.compile(rf"{_CITY},?\s+(?:[A-Z]{{2}}\s+)?(?P<code>[A-Z]\d[A-Z]\s?\d[A-Z]\d)")
_BRITISH: Final = re.compile(rf"{_CITY},?\s+(?P<code>[A-Z]{{1,2}}\d[A-Z\d]?\s?\d[A-Z]{{2}})")
_DUTCH: Final = re.compile(rf"(?:NL-)?(?P<code>\d{{4}}\s?[A-Z]{{2}})\s+{_CITY}")
#: The code first, perhaps with the letters of the country: most of the continent of Europe, and more.
_CODE_FIRST: Final = re.compile(rf"(?:[A-Z]{{1,3}}-\s?)?(?P<code>\d{{3}}\s\d{{2}}|\d{{2}}-\d{{3}}|\d{{4,6}})\s+{_CITY}")
#: The countries that put it first.
_FIRST: Final = frozenset({
    "AD", "AT", "BA", "BE", "BG", "CH", "CZ", "DE", "DK", "EE", "ES", "FI", "FR", "GR", "HR", "HU", "IL", "IS", "IT",
    "LI", "LT", "LU", "MA", "MC", "ME", "MK", "MX", "NO", "PL", "PT", "RO", "RS", "SE", "SI", "SK", "SM", "TN", "TR",
    "VA",
})  # fmt: skip
_FORMS: Final = {"US": _AMERICAN, "PR": _AMERICAN, "CA": _CANADIAN, "GB": _BRITISH, "NL": _DUTCH}


def city_of(address: str, country: str) -> tuple[str, str] | None:
    """The postal code and the city; None if they do not stand there as that country writes them."""
    form = _FORMS.get(country) or (_CODE_FIRST if country in _FIRST else None)
    if form is None:
        return None
    lines = [line.strip() for line in re.split(r"[\r\n;]+", address) if line.strip()]
    for line in reversed(lines):
        parts = [part.strip() for part in line.split(",")]
        # The city may stand before a comma: Springfield, IL 62701.
        tried = [text for at in range(len(parts) - 1, -1, -1) for text in (parts[at], ", ".join(parts[at : at + 2]))]
        for text in tried:
            if (found := form.fullmatch(text)) is not None:
                return found["code"], found["city"].strip()
    return None
