"""Maps of where addresses are: ``maps.draw(frame["ip"])`` in a notebook shows itself, and can be written to a file.

Needs the extra ``map``, and for columns ``arrow``.
"""

import os
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypeAlias, get_args

from geolookup.columns.batches import Batch, of_columns
from geolookup.columns.common import default_geo
from geolookup.columns.counts import By, Counts, count
from geolookup.columns.map_content import Content, of_counts, of_custom
from geolookup.columns.map_drawing import specification
from geolookup.columns.outlines import focus_of
from geolookup.lookup.engine import GeoLookup
from geolookup.model.errors import ColumnError, SettingsError

__all__ = ["FORMS", "Form", "Map", "draw", "draw_counts", "draw_custom"]

Form: TypeAlias = Literal["html", "svg", "png"]
FORMS: Final = get_args(Form)
#: Rows of each table if nothing else is asked for.
TOP: Final = 15


class Map:
    """A map, drawn when it is asked for. In a notebook it shows itself.

    :raises MissingExtraError: if what draws is not installed
    """

    def __init__(self, content: Content) -> None:
        # Here: counting and shading work without what draws.
        from geolookup.columns import map_rendering as rendering

        self._content = content
        self._rendering = rendering

    @property
    def summary(self) -> str:
        """The totals in one line."""
        return self._content.summary

    def html(self) -> str:
        """One page of HTML that needs nothing else: no script, no network."""
        return self._rendering.document(self._content, self._picture())

    def svg(self) -> str:
        """The picture with its tables, as SVG."""
        return self._rendering.svg(self.specification())

    def png(self, scale: float = 2.0) -> bytes:
        """The same as PNG, 992 times ``scale`` pixels wide."""
        return self._rendering.png(self.specification(), scale=scale)

    def specification(self) -> dict[str, Any]:
        """The same as a specification of Vega 5."""
        return specification(self._content, whole=True)

    def write(self, form: Form) -> bytes:
        """The file in one of `FORMS`.

        :raises SettingsError: for another form
        """
        if form == "png":
            return self.png()
        if form not in FORMS:
            raise SettingsError(f"unknown format {form!r:.40}: a map is one of {', '.join(FORMS)}")
        return (self.svg() if form == "svg" else self.html()).encode("utf-8")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a file, in the form that the end of the name says; the file is there once it is complete.

        :raises SettingsError: if the name ends in none of `FORMS`
        :raises DataFileError: if it cannot be written
        """
        from geolookup.exports.target import open_target

        name = os.fspath(path)
        content = self.write(form_of(name))
        with open_target(name) as out:
            out.write(content)

    def _picture(self) -> str:
        # A page may have several maps.
        return self._rendering.svg(specification(self._content, whole=False), mark=f"g{uuid.uuid4().hex[:8]}-")

    def _repr_html_(self) -> str:
        return self._rendering.fragment(self._content, self._picture())

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        del include, exclude  # a caller ignores the forms that it does not want
        return {"text/html": self._repr_html_(), "text/plain": repr(self)}

    def __repr__(self) -> str:
        return f"<Map: {self._content.title}: {self._content.summary}>"


def form_of(name: str) -> Form:
    """The form that the end of a file's name says.

    :raises SettingsError: if it says none
    """
    end = os.path.splitext(name)[1].lower().removeprefix(".")
    forms: dict[str, Form] = {"html": "html", "htm": "html", "svg": "svg", "png": "png"}
    if end in forms:
        return forms[end]
    raise SettingsError(f"{name}: the name of a map ends in .{', .'.join(FORMS)}")


def draw(
    addresses: Any,
    *,
    geo: GeoLookup | None = None,
    by: By = "requests",
    top: int = TOP,
    title: str | None = None,
    focus: str | None = None,
) -> Map:
    """A map of a column of addresses: an Arrow array, a series of pandas or Polars, or any iterable of text.

    ``by`` "requests" counts every row, "addresses" each address once. The tables have ``top`` rows, all if it is 0.
    ``focus`` is a country's code or name, or a continent. With ``geo`` None, the settings' state directory answers.

    :raises ColumnError: if the column holds no addresses, or ``by`` is unknown
    :raises SettingsError: if ``focus`` is unknown
    """
    focus_of(focus)  # before the work
    counts = count(geo, _batches(addresses), by=by)
    return draw_counts(counts, top=top, title=title, focus=focus)


def draw_counts(counts: Counts, *, top: int = TOP, title: str | None = None, focus: str | None = None) -> Map:
    """A map of what `columns.counts` counted; the options are those of `draw`."""
    shown = focus_of(focus)
    where = f" in {shown.name}" if shown.name else ""
    title = title if title is not None else f"{counts.by.capitalize()} by country and city{where}"
    return Map(of_counts(counts, title=title, focus=shown, top=top, drawn=_today()))


def draw_custom(
    geo: GeoLookup | None = None, *, top: int = TOP, title: str | None = None, focus: str | None = None
) -> Map:
    """A map of the custom geolocations by the names of their sites, the pending ones too; options as in `draw`."""
    shown = focus_of(focus)
    where = f" in {shown.name}" if shown.name else ""
    title = title if title is not None else f"Custom geolocations{where}"
    geo = default_geo() if geo is None else geo
    return Map(of_custom(geo, title=title, focus=shown, top=top, drawn=_today()))


def _today() -> str:
    return datetime.now(UTC).date().isoformat()


def _batches(addresses: Any) -> Iterator[tuple[str, Batch]]:
    from geolookup.columns.arrow_addresses import pa

    if isinstance(addresses, str | bytes | os.PathLike):  # text can be iterated too, a character at a time
        raise ColumnError("this is text, not a column of addresses: `geolookup map FILE` draws a map of a file")
    if hasattr(addresses, "columns"):
        raise ColumnError("this is a table: give its column of addresses, as in table['ip']")
    try:
        if hasattr(addresses, "to_arrow"):  # Polars
            addresses = addresses.to_arrow()
        if not isinstance(addresses, pa.Array | pa.ChunkedArray):
            addresses = pa.array(addresses if hasattr(addresses, "__array__") else list(addresses), from_pandas=True)
        chunks = addresses.chunks if isinstance(addresses, pa.ChunkedArray) else [addresses]
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise ColumnError(
            "the column holds something else than addresses: they must be text, bytes, whole numbers or address objects"
        ) from error
    return (("the column", batch) for batch in of_columns(chunks))
