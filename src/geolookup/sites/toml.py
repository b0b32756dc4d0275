"""Sites as TOML 1.0: one table ``[[site]]`` each."""

import functools
import re
import tomllib
from typing import Any

import tomli_w

from geolookup.base.reasons import reason
from geolookup.model.errors import DataFileError
from geolookup.sites.site import KEYS, MADE_AT, MADE_FROM, TIME_ZONE, VRF, Site, Where, block_text

_HEADER = """\
# The organisation's sites. `geolookup custom plan FILE` shows what would change, `geolookup custom apply FILE` does it.
"""
_AT_LINE = re.compile(r"line ([0-9]+), column [0-9]+: ")
# Strings and comments are matched only to skip them: what looks like a header inside them is not one.
_TOKENS = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}'
    r"|'''.*?'{3,5}"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'"
    r"|\#[^\n]*"
    r"|^[ \t]*(?P<header>\[\[[ \t]*(?:site|\"site\"|'site')[ \t]*\]\])",
    re.DOTALL | re.MULTILINE,
)


def read(path: str, text: str) -> tuple[str, list[tuple[dict[str, Any], Where]]]:
    """The moment of the export that the file was, "" if it does not say it; the sites' values as TOML has them, each
    with its position.

    :raises DataFileError: if the text is not TOML, or holds anything but sites
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        said = reason(error)
        found = _AT_LINE.match(said)
        at = f", line {found[1]}" if found else ""
        raise DataFileError(f"{path}{at}: is not TOML: {_AT_LINE.sub('', said)}") from error
    except (RecursionError, ValueError) as error:  # the latter for a number of thousands of digits
        raise DataFileError(f"{path}: is not TOML: {reason(error)}") from error
    lines = _Lines(text)
    for key in document:
        if key not in ("site", MADE_AT):
            line = lines.of_key(key)
            raise DataFileError(
                f"{path}{'' if line is None else f', line {line}'}: unknown key {key!r}: "
                "the file has one table [[site]] for each site"
            )
    tables = document.get("site")
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise DataFileError(f"{path}: has no [[site]] (for no site at all, write `site = []`)")
    lines.expect(len(tables))
    # In an export that was appended to another the key belongs to the table before it. The oldest one counts: somebody
    # may have changed any of the sites since then.
    moments = [document.get(MADE_AT, ""), *(table.pop(MADE_AT) for table in tables if MADE_AT in table)]
    if not all(isinstance(moment, str) for moment in moments):
        raise DataFileError(f"{path}, line {lines.of_key(MADE_AT)}: {MADE_AT} is text: leave it as an export wrote it")
    return min(filter(None, moments), default=""), [
        (table, Where(path=path, find=functools.partial(lines.find, number))) for number, table in enumerate(tables)
    ]


def write(sites: list[Site]) -> str:
    """The text of a file."""
    tables = []
    for site in sites:
        values = {"name": site.name, **site.fields, "blocks": [block_text(block) for block in site.blocks]}
        more = {key: value for key in (VRF, TIME_ZONE, MADE_FROM) if (value := getattr(site, key))}
        tables.append({**{key: values[key] for key in KEYS if values[key] is not None}, **more})
    moment = max((site.made_at for site in sites), default="")
    made_at = {MADE_AT: moment} if moment else {}
    return _HEADER + "\n" + tomli_w.dumps({**made_at, "site": tables})


class _Lines:
    """The positions of things in the text: `tomllib` does not say. Looked for only once something is wrong."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._count = -1

    def expect(self, count: int) -> None:
        """Set the number of tables: if another number of headers is found, no line is guessed."""
        self._count = count

    @functools.cached_property
    def _headers(self) -> list[int]:
        found = [match.start("header") for match in _TOKENS.finditer(self._text) if match["header"]]
        return found if len(found) == self._count else []

    def find(self, number: int, key: str, text: str) -> int | None:
        """The line of a key (or of a text in its value) of the table of that number, else of the table."""
        if not self._headers:
            return None
        begin, end = self._headers[number], [*self._headers, len(self._text)][number + 1]
        if key:
            found = _key(key).search(self._text, begin, end)
            if found:
                begin = found.start("key")
                at = [self._text.find(quote + text + quote, begin, end) for quote in "\"'"] if text else []
                begin = min((position for position in at if position >= 0), default=begin)
        return self._line(begin)

    def of_key(self, key: str) -> int | None:
        """The line of a key or table anywhere."""
        found = _key(key).search(self._text)
        return None if found is None else self._line(found.start("key"))

    def _line(self, position: int) -> int:
        return 1 + self._text.count("\n", 0, position)


def _key(key: str) -> re.Pattern[str]:
    name = re.escape(key)
    return re.compile(rf"""^[ \t]*\[*[ \t]*(?P<key>(?:{name}|"{name}"|'{name}'))[ \t]*[=.\]]""", re.MULTILINE)
