"""From the specification of a picture to the picture."""

import json
import re
from typing import Any, Final
from xml.etree import ElementTree

from geolookup.errors import MissingExtraError

try:
    import vl_convert
except ImportError as error:
    raise MissingExtraError(f"maps need vl-convert: pip install 'geolookup[map]' ({error})") from error

_SVG: Final = "http://www.w3.org/2000/svg"
_MORE_THAN_A_TENTH: Final = re.compile(r"(\.\d)\d+")

ElementTree.register_namespace("", _SVG)


def svg(specification: dict[str, Any], *, mark: str = "") -> str:
    """The picture as SVG. What a person may point at has a title; ids begin with ``mark``, so that no two pictures of
    one page share them.
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
