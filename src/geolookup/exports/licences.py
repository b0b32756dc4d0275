"""True if what is exported may be handed on, and the lines that licences want to travel with it."""

from collections.abc import Iterable, Sequence
from typing import Any

from geolookup.model.errors import LicenceError
from geolookup.settings.times import of_day
from geolookup.sources.providers import UNKNOWN_LICENCE
from geolookup.state.base.current import Current
from geolookup.state.base.parts import SERVICE, entries_of


def require_leave(
    home: str, current: Current, answering: Iterable[str], *, instead: str = "choose --layer custom or another --source"
) -> None:
    """Refuse what must not be handed on; ``instead`` is what a person can do about it.

    :raises LicenceError: if the licence of a source in ``answering`` does not let others have its data
    """
    known = terms(home, current)
    refused = [name for name in answering if _is_forbidden(known.get(name, {}))]
    if not refused:
        return
    told = [f"{name} ({licence})" if (licence := known[name].get("licence")) else name for name in refused]
    raise LicenceError(
        f"{' and '.join(told)} answers some of what is asked for, and the licence does not let others have the data: "
        f"{instead}, or say --licence-allows if yours does"
    )


def attributions(home: str, current: Current, answering: Sequence[str]) -> tuple[str, ...]:
    """The lines that the licences of the answering sources want shown, each once, in the order of the sources."""
    known = terms(home, current)
    return tuple(dict.fromkeys(line for name in answering if (line := known.get(name, {}).get("attribution"))))


def origins(current: Current, answering: Sequence[str]) -> tuple[str, ...]:
    """Each answering source with the day that its data are of, and whether its licence is known."""
    known = {str(entry["name"]): entry for entry in current.sources}
    found = []
    for name in answering:
        own = known.get(name)
        if own is None:  # the custom layer
            found.append(name)
            continue
        unknown = f", licence {UNKNOWN_LICENCE}" if own.get("kind") != SERVICE and not own.get("licence") else ""
        found.append(f"{name} ({of_day(own.get('dated'))}{unknown})")
    return tuple(found)


def oldest(current: Current, answering: Sequence[str]) -> str | None:
    """The oldest date that an answering source says its data are of; None if none says one."""
    known = {str(entry["name"]): entry for entry in current.sources}
    return min((str(date) for name in answering if (date := known.get(name, {}).get("dated"))), default=None)


def forbidden(home: str, current: Current) -> frozenset[str]:
    """The sources whose licences do not let others have their data, whether they answer something or not."""
    return frozenset(name for name, each in terms(home, current).items() if _is_forbidden(each))


def text(home: str, current: Current, answering: Sequence[str]) -> str:
    """A page about the sources that answer: the licence of each, and the line that it wants shown."""
    known = terms(home, current)
    lines = ["What geolookup answers. It is made from these sources:", ""]
    for name in answering:
        its = known.get(name, {})
        lines.append(f"{name}: {its.get('licence') or f'licence {UNKNOWN_LICENCE}'}" if its else name)
        lines += [f"  {its['attribution']}"] if its.get("attribution") else []
        lines += [f"  data {of_day(its.get('dated'))}"] if its else []
    return "\n".join((*lines, ""))


def _is_forbidden(its: dict[str, Any]) -> bool:
    return its.get("redistribute") is False


def terms(home: str, current: Current) -> dict[str, dict[str, Any]]:
    """The terms of each source: as of the last sync, else (of one that is not configured any more) as it was pulled."""
    pulled = entries_of(home, current.published)
    return {str(entry["name"]): entry for entry in (*pulled, *current.sources)}
