"""The names of sites, given by a file or by hand, and their time zones: each within one session of the editor."""

from collections.abc import Mapping

from geolookup.model.checked import wrong_name, wrong_time_zone
from geolookup.model.errors import EditError
from geolookup.state.edits.names import BY_HAND
from geolookup.state.edits.outbox.outbox import insert_history
from geolookup.state.edits.outbox.payload import content_of
from geolookup.state.edits.session import EditSession
from geolookup.state.edits.steps import SITES, Named


def name_sites(session: EditSession, names: Mapping[str, Named], *, file: str, about: int | None = None) -> None:
    """Keep these names, each with a number of this machine, and no others; ``about`` is the one that changes.

    The names of what the service was not told to delete yet stay, so that a later file can take the delete back.
    """
    before = session.names.all()
    named = {each.locid for each in names.values()}
    # What is not in the layer, and may come back without the service's noticing.
    hidden = session.forgotten() | {session.local(shown) for shown in session.deleted_unsent()}
    gone = {name: each for name, each in before.items() if each.locid in hidden and each.locid not in named}
    _change(session, before, {**gone, **names}, file=file, about=about)


def _change(
    session: EditSession, before: Mapping[str, Named], after: Mapping[str, Named], *, file: str, about: int | None
) -> None:
    """Make some names, which are the one, the other; a site that is not among them keeps its name."""
    changed = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    if changed:
        session.write_history()
        for local in {after[name].locid for name in changed if name in after}:
            if (here := session.layer.get(session.shown(local))) is not None:
                session.ledger.place_of(session.shown(local), content_of(here.place), seen=session.listed.begun.counter)
        session.names.change({name: after.get(name) for name in changed}, file=file)
        session.changed = True  # lookups say the names
        session.outbox.touch()  # so that they do, even if this process is killed before it publishes
        steps: dict[int, list[str]] = {}
        for name in changed:
            # The name of what is gone already goes with the step that deleted it, and comes back with that.
            is_gone = name not in after and session.shown(before[name].locid) not in session.layer
            of = session.steps.newest_of(before[name].locid) if is_gone else None
            steps.setdefault(of or session.outbox.step, []).append(name)
        for step, those in steps.items():
            was, became = (
                {name: known[name].written if name in known else None for name in those} for known in (before, after)
            )
            insert_history(session.ledger.database, SITES, file, locid=about, before=was, after=became, step=step)


def name_by_hand(session: EditSession, name: str, local: int) -> str | None:
    """Name one geolocation, by its number of this machine; the name that it had goes, and is returned.

    :raises EditError: if the name cannot be one, or a geolocation has it already
    """
    if (wrong := wrong_name(name)) is not None:
        raise EditError(wrong)
    known = session.names.among(name, local)
    if name in known and (owner := session.shown(known[name].locid)) in session.layer:
        if known[name].locid == local:
            raise EditError(f"geolocation {owner} is named {name!r} already: nothing was changed")
        raise EditError(f"there is a site {name!r} already: geolocation {owner}. Change that, or take another name")
    before = next((each for each, of in known.items() if of.locid == local), None)
    named = Named(local) if before is None else known[before]
    _change(session, known, {name: named}, file=BY_HAND, about=local)
    return before


def put_time_zone(session: EditSession, local: int, zone: str) -> bool:
    """Give the site of a geolocation, by its number of this machine, a time zone, or "": false if it has that.

    :raises EditError: if that is not a time zone, or the geolocation is not a site
    """
    if (wrong := wrong_time_zone(zone)) is not None:
        raise EditError(wrong)
    known = session.names.among(None, local)
    name = next(iter(known), None)
    if name is None and zone:
        raise EditError(
            f"geolocation {session.shown(local)} has no name, and a time zone is a site's: name it first, with "
            "`geolookup custom rename`"
        )
    if name is None or known[name].time_zone == zone:
        return False
    _change(session, known, {name: Named(local, zone)}, file=BY_HAND, about=local)
    return True


def keep_sites(session: EditSession, names: Mapping[str, Named], *, file: str) -> None:
    """`name_sites` of the names that a file gives; what was named by hand, and is not in it, keeps its name."""
    taken, known = {named.locid for named in names.values()}, session.names.all()
    kept = {
        name: known[name]
        for name in session.names.by_hand() - names.keys()
        if known[name].locid not in taken and session.shown(known[name].locid) in session.layer
    }
    name_sites(session, {**kept, **names}, file=file)
    session.names.belong(names, file)
