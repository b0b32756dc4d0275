"""States for tests: published from plain tuples, without a service."""

from collections.abc import Iterable

from geolookup.model.types import IPBlock
from geolookup.state.base.clock import now_text
from geolookup.state.base.current import Current
from geolookup.state.base.marks import Mark
from geolookup.state.publishing.directory import StateDirectory
from geolookup.state.publishing.run import running
from geolookup.sync.pull.staging import Staging
from geolookup.upstream.decode import PulledGeolocation

URL = "http://127.0.0.1:9"


def place(locid: int, *ranges: str, country: str = "", city: str = "", **fields: object) -> PulledGeolocation:
    """A geolocation with its blocks, each a network, an address, or ``first-last``."""
    blocks = []
    for text in ranges:
        block = IPBlock.from_ends(*text.split("-")) if "-" in text else IPBlock.parse(text)
        blocks.append((block.family, block.first, block.last, block.startip, block.endip))
    members = {
        "country": country,
        "region": "",
        "city": city or f"city {locid}",
        "postalcode": "",
        "latitude": None,
        "longitude": None,
        "dmacode": "",
        "areacode": "",
        **fields,
    }
    return PulledGeolocation(locid=locid, blocks=blocks, **members)  # type: ignore[arg-type]


def publish(
    home: str,
    places: Iterable[PulledGeolocation],
    *,
    url: str | None = URL,
    keep: int = 7,
    mark: Mark | None = None,
) -> Current:
    """Publish the geolocations as the next generation of ``home``, as a pull would; ``mark`` is that of their list."""
    directory = StateDirectory(home, keep_generations=keep)
    with running(directory) as run, run.candidate() as candidate:
        with Staging(candidate) as staging:
            staging.add(list(places))
            staged = staging.finish({"url": url or ""})
        record = {
            "source": url or "bundled",
            "url": url,
            "digest": staged.digest,
            "etag": None,
            "began_at": now_text(),
            "pulled_at": now_text(),
            "rows": staged.rows,
            **({} if mark is None else {"mark": mark.as_json()}),
        }
        candidate.seal(record, {})
        return run.publish(candidate)
