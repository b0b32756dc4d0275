"""The one line that a person reads for an address. Light, since ``geolookup 8.8.8.8`` prints nothing else."""

from geolookup.base.text import harmless, place_text


def match_line(
    address: str,
    *,
    locid: int,
    country: str,
    region: str,
    city: str,
    postalcode: str,
    first: str,
    last: str,
    layer: str,
    pending: bool,
) -> str:
    """Address, place, range and origin, separated by tabs."""
    place = place_text(map(harmless, (city, region, postalcode, country)))
    waits = ", pending" if pending else ""
    return f"{harmless(address)}\t{place}\t{first}-{last}\t{layer} {locid}{waits}"


def harmless_lines(text: str) -> str:
    """Text that may hold data, made harmless for a terminal line by line."""
    return "\n".join([harmless(line, 10_000) for line in text.split("\n")])


def not_covered_line(address: str) -> str:
    """The line for an address that no block covers."""
    return f"{harmless(address)}\tnot covered"


def malformed_line(address: str) -> str:
    """The line for text that is not an address."""
    return f"{harmless(address)}\tmalformed"
