"""``registry``: the bundled data of the registries' delegations: a country for every allocated address."""

from collections.abc import Iterator

from geolookup.files.limits import Limits
from geolookup.files.opened import Member, Opened
from geolookup.sources.blocks import Batch
from geolookup.sources.country_ranges import bundled_date, bundled_ranges_path
from geolookup.sources.kinds import ranges_csv
from geolookup.sources.protocol import Gathered, Kind, Request

_ATTRIBUTION = "registry delegation data as aggregated by ipverse (CC0 1.0)"


def open_bundled(limits: Limits) -> Opened:
    """The bundled file."""
    return Opened(bundled_ranges_path(), limits)


def never_by_content(_member: Member) -> bool:
    """It is asked for by name: a file like it is a ``ranges-csv``."""
    return False


def read(opened: Opened, request: Request, gathered: Gathered) -> Iterator[Batch]:
    """The delegated ranges."""
    gathered.about.update(dated=bundled_date(), attribution=_ATTRIBUTION)
    for member in opened.members:
        yield from ranges_csv.read_file(member, request, gathered, empty_covers=False)


KIND = Kind(
    name="registry",
    summary="the bundled delegation data: a country for every allocated address",
    fits=never_by_content,
    read=read,
)
