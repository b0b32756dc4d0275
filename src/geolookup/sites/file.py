"""A file of sites, which people review: read and written as TOML or CSV."""

import os
from collections.abc import Iterable
from typing import Literal, TypeAlias

from geolookup.errors import DataFileError
from geolookup.sites import csv as sites_csv
from geolookup.sites import toml as sites_toml
from geolookup.sites.site import Site, refuse_repetitions, site_of

Form: TypeAlias = Literal["toml", "csv"]


def form_of(path: str, form: Form | None = None) -> Form:
    """The format of a file: as given, else by the end of its name.

    :raises DataFileError: if neither says it
    """
    if form is not None:
        return form
    suffix = os.path.splitext(path)[1].lower()
    if suffix == ".toml":
        return "toml"
    if suffix == ".csv":
        return "csv"
    raise DataFileError(f"{path}: its name ends neither in .toml nor in .csv: say which it is with --format")


def read_sites(path: str, form: Form | None = None) -> list[Site]:
    """All sites of a file, in its order.

    TOML has a table ``[[site]]`` for each; CSV a line for each, its blocks in one column, separated by blanks. Every
    key of `KEYS` except the coordinates must be there (in CSV, the columns of the coordinates too; they may be empty).

    :raises DataFileError: at the first site that is malformed, or that has the name or a block of another:
        names the file, the line and the site
    """
    found = sites_toml.read(path) if form_of(path, form) == "toml" else sites_csv.read(path)
    sites = [site_of(values, where) for values, where in found]
    refuse_repetitions(sites)
    return sites


def write_sites(sites: Iterable[Site], form: Form) -> str:
    """The sites as the text of a file: reading it again gives the same sites."""
    if form == "toml":
        return sites_toml.write(list(sites))
    return sites_csv.write(list(sites))
