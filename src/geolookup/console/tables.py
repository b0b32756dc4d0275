"""A table that is sorted and paged here, by parameters of the address: so it needs no scripts, and can be linked."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from geolookup.console.forms import AnyRequest, query

PAGE_ROWS = 50


class Table:
    """One page of some rows. ``columns`` are those that it can be sorted by, each with its key.

    ``sort`` and ``page`` come from the address; what they cannot be counts as not given.
    """

    def __init__(
        self, request: AnyRequest, rows: Sequence[Any], columns: Mapping[str, Callable[[Any], Any]], *, default: str
    ) -> None:
        self._path = request.url.path
        self._given = {name: query(request, name) for name in request.query_params if name not in ("page", "told")}
        sort = self._given.get("sort", "")
        self.column = sort.removeprefix("-") if sort.removeprefix("-") in columns else default
        self.reverse = sort == f"-{self.column}"
        if self.column in columns:
            rows = sorted(rows, key=columns[self.column], reverse=self.reverse)
        self.count = len(rows)
        self.pages = max(1, -(-len(rows) // PAGE_ROWS))
        page = query(request, "page")
        self.page = min(self.pages, max(1, int(page))) if page.isascii() and page.isdecimal() and len(page) < 9 else 1
        begin = (self.page - 1) * PAGE_ROWS
        self.rows = rows[begin : begin + PAGE_ROWS]
        self.first, self.last = min(begin + 1, self.count), begin + len(self.rows)

    def sorted_by(self, column: str) -> str:
        """Where a click on the heading of a column leads: sorted by it, or the other way round."""
        other_way = column == self.column and not self.reverse
        return self._with(sort=f"-{column}" if other_way else column)

    def at(self, page: int) -> str:
        """Where another page is."""
        return self._with(page=str(page))

    def order(self, column: str) -> str:
        """What a screen reader says about a heading."""
        return "none" if column != self.column else "descending" if self.reverse else "ascending"

    def _with(self, **changes: str) -> str:
        found = {name: value for name, value in {**self._given, **changes}.items() if value}
        return f"{self._path}?{urlencode(found)}" if found else self._path
