"""A map as SVG, PNG and HTML. The HTML has the picture, and tables with the same figures: no scripts, nothing fetched.

Needs the extra `map`.
"""

import json
import re
from html import escape
from typing import Any, Final
from xml.etree import ElementTree

from geolookup.columns.map_content import Content, Table
from geolookup.model.errors import MissingExtraError

try:
    import vl_convert
except ImportError as error:
    raise MissingExtraError(f"maps need vl-convert: pip install 'geolookup[map]' ({error})") from error

_SVG: Final = "http://www.w3.org/2000/svg"
_MORE_THAN_A_TENTH: Final = re.compile(r"(\.\d)\d+")

ElementTree.register_namespace("", _SVG)


def svg(specification: dict[str, Any], *, mark: str = "") -> str:
    """The picture as SVG. Shapes with a label have it as their title.

    Ids begin with ``mark``, so that no two pictures of one page share them.
    """
    # Not a file or address in it is read: all data are values.
    drawn = vl_convert.vega_to_svg(json.dumps(specification), allowed_base_urls=[])
    root = ElementTree.fromstring(drawn)  # noqa: S314 - see above
    for element in root.iter():
        label = element.attrib.pop("aria-label", None)
        for name in ("role", "aria-roledescription", "aria-hidden"):
            element.attrib.pop(name, None)
        if label and element is not root:
            title = ElementTree.SubElement(element, f"{{{_SVG}}}title")
            title.text = label
        if "d" in element.attrib:
            element.set("d", _MORE_THAN_A_TENTH.sub(r"\1", element.attrib["d"]))
        if mark:
            _rename(element, mark)
    root.set("role", "img")
    root.set("aria-label", str(specification["description"]))
    return ElementTree.tostring(root, "unicode")


def _rename(element: ElementTree.Element, mark: str) -> None:
    for name, value in element.attrib.items():
        if name == "id":
            element.set(name, mark + value)
        elif name == "clip-path":
            element.set(name, value.replace("url(#", f"url(#{mark}"))


def png(specification: dict[str, Any], *, scale: float = 2.0) -> bytes:
    """The picture as PNG, with ``scale`` pixels for each of the specification's."""
    return bytes(vl_convert.vega_to_png(json.dumps(specification), scale=scale, allowed_base_urls=[]))


#: Only inside the element of a map, since a notebook has other things on its page.
_STYLE: Final = """
.geolookup-map { max-width: 62rem; margin: 0 auto; font: 15px/1.45 system-ui, sans-serif; color: #1f2a33; }
.geolookup-map h1 { font-size: 1.5rem; margin: 0 0 .25rem; overflow-wrap: anywhere; }
.geolookup-map figure { margin: .75rem 0; }
.geolookup-map svg { width: 100%; height: auto; background: #fff; border-radius: 6px; }
.geolookup-map .tables { display: flex; flex-wrap: wrap; align-items: flex-start; gap: 1rem 2.5rem; }
.geolookup-map table { border-collapse: collapse; flex: 1 1 20rem; min-width: 0; }
.geolookup-map caption { text-align: left; font-weight: 600; padding: .25rem 0; }
.geolookup-map th, .geolookup-map td { padding: .15rem .4rem .15rem 0; text-align: right; font-weight: normal; }
.geolookup-map th:first-child { text-align: left; overflow-wrap: anywhere; }
.geolookup-map thead th { color: #55616a; }
.geolookup-map .bar { width: 30%; text-align: left; }
.geolookup-map meter { width: 100%; min-width: 3rem; }
.geolookup-map footer { margin-top: 1rem; font-size: .85rem; color: #55616a; overflow-wrap: anywhere; }
.geolookup-map footer p { margin: .1rem 0; }
"""
_DARK: Final = """
@media (prefers-color-scheme: dark) {
  body { background: #14191d; }
  .geolookup-map { color: #e4e9ed; }
  .geolookup-map thead th, .geolookup-map footer { color: #a7b3bc; }
}
@media print { .geolookup-map { max-width: none; } }
"""


def document(content: Content, picture: str) -> str:
    """A whole page around ``picture``, which is SVG."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        # No text in the data can run or fetch anything.
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(content.title)}</title>\n"
        f"<style>\nbody {{ margin: 1rem; }}{_STYLE}{_DARK}</style>\n</head>\n<body>\n"
        f"{_body(content, picture, 'main')}\n</body>\n</html>\n"
    )


def fragment(content: Content, picture: str) -> str:
    """The same as a part of a page, for notebooks."""
    return f"<style>{_STYLE}</style>\n{_body(content, picture, 'div')}"


def _body(content: Content, picture: str, tag: str) -> str:
    tables = "\n".join(map(_table, content.tables))
    footer = "\n".join(f"<p>{escape(line)}</p>" for line in content.footer)
    return (
        f'<{tag} class="geolookup-map">\n<h1>{escape(content.title)}</h1>\n<p>{escape(content.summary)}</p>\n'
        f"<figure>{picture}</figure>\n"
        f'<div class="tables">\n{tables}\n</div>\n<footer>\n{footer}\n</footer>\n</{tag}>'
    )


def _table(table: Table) -> str:
    headings = "".join(f'<th scope="col">{escape(heading)}</th>' for heading in table.headings)
    rows = "\n".join(
        f'<tr><th scope="row">{escape(row.label)}</th>'
        f'<td class="bar"><meter value="{row.bar:.3f}" aria-hidden="true"></meter></td>'
        + "".join(f"<td>{escape(value)}</td>" for value in row.values)
        + "</tr>"
        for row in table.rows
    )
    return (
        f"<table>\n<caption>{escape(table.title)}</caption>\n"
        f'<thead><tr><th scope="col">place</th><td class="bar"></td>{headings}</tr></thead>\n'
        f"<tbody>\n{rows}\n</tbody>\n</table>"
    )
