"""Facts of networks that are asked for and that no source says: told, since each answer will be empty."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from geolookup.cli import output
from geolookup.lookup.network import key_of
from geolookup.model.facts import NETWORK_FACTS

if TYPE_CHECKING:
    from geolookup.lookup.engine import GeoLookup

_NO_SOURCE = "no source says who runs addresses"
_ADVICE = "`geolookup source add` takes files of AS numbers, VPNs and so on"


def unsaid(geo: "GeoLookup", names: Iterable[str]) -> tuple[list[str], str]:
    """Those of some names that are facts of networks which no source says, and what to tell of them."""
    asked = {key_of(NETWORK_FACTS[name]): name for name in names if name in NETWORK_FACTS}
    networks = geo.with_networks(lambda snapshot: snapshot.networks()) if asked else None
    if asked and networks is None:
        return list(asked.values()), _NO_SOURCE
    known = () if networks is None else networks.reader.record_keys
    found = [name for key, name in asked.items() if key not in known]
    return found, f"no source says {', '.join(found)}" if found else ""


def said(geo: "GeoLookup") -> tuple[str, ...]:
    """The facts of networks that a source says, by their names."""
    missing, _ = unsaid(geo, NETWORK_FACTS)
    return tuple(name for name in NETWORK_FACTS if name not in missing)


def why_none(geo: "GeoLookup", names: Iterable[str]) -> str:
    """The reason why no address can have these facts, to follow a message; "" if it is another."""
    found, why = unsaid(geo, names)
    return f": {why}" + (f": {_ADVICE}" if why == _NO_SOURCE else "") if found else ""


def warn_of_unsaid(geo: "GeoLookup", names: Iterable[str]) -> None:
    """Warn if some of the names that are asked for will be empty everywhere."""
    found, why = unsaid(geo, names)
    if found:
        output.warn(
            f"{why}, so {', '.join(found)} will be empty: {_ADVICE}"
            if why == _NO_SOURCE
            else f"{why}: it will be empty"
        )
