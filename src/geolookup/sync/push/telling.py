"""The words for a person: why a place is held, what is there now, and each choice with its command and its effect."""

import functools
from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from geolookup.model.fields import FIELD_NAMES
from geolookup.state.edits.names import SiteNames
from geolookup.state.edits.outbox.kept import Kept
from geolookup.state.edits.outbox.ledger import EDIT, Ledger
from geolookup.state.edits.outbox.operations import describe
from geolookup.state.edits.outbox.payload import geolocation
from geolookup.state.edits.outbox.row import OutboxRow
from geolookup.state.edits.places.choosing import anew, given_back, offered
from geolookup.state.edits.places.concluding import over
from geolookup.state.edits.places.place import Blocks, Content, Intent, Place, in_order
from geolookup.state.edits.places.reconcile import Hold, conflicting, strange_blocks

_MOST_NAMED = 5


def why_missing(row: OutboxRow, theirs: Content | None, newest: int) -> str | None:
    """Why what the service has is not as an edit leaves it, if it is not; ``newest`` is the last edit of its place."""
    if theirs is None or row.intent.what == "create" or row.intent.applied(theirs) == theirs:
        return None
    if row.id < newest:
        return "a later edit replaces it"
    return "somebody else has given what it takes" if row.intent.takes else None


class Names:
    """The names of places in messages: the site's name if a person or a file gave one, and the number."""

    def __init__(self, ledger: Ledger, places: Iterable[Place] = ()) -> None:
        """Take the names; ``places`` have the numbers that they will have, and not those of the ledger."""
        self._sites = {local: name for name, local in SiteNames(ledger.database).locids().items()}
        now = {place.id: None if place.deleted else place.number for place in places}
        known = {number: place for number, place in ledger.outbox.numbers().items() if place not in now}
        self._ours = {**known, **{number: place for place, number in now.items() if number is not None}}
        self._outbox = ledger.outbox

    @functools.cached_property
    def _numbers(self) -> Mapping[int, int]:
        """The service's number of each place that has, or had, one."""
        return {local: number for number, local in self._outbox.deleted_here().items()} | self._outbox.aliases()

    def describe(self, row: OutboxRow) -> str:
        """An edit in words, by the service's number of its place."""
        site = self._sites.get(row.locid)
        number = self._numbers.get(row.locid, row.locid) if row.number is None else row.number
        return describe(row.intent, number) + (f" ({site})" if site is not None else "")

    def number(self, number: int, content: Content | None) -> str:
        """A geolocation of the service in words, by its number."""
        site = self._sites.get(self._ours.get(number, 0))
        return f"{site or (content and content.fields['city']) or 'geolocation'} ({number})"

    def site(self, kept: Kept) -> str | None:
        """The name that a person or a file of sites gave the place."""
        return self._sites.get(kept.place.id)

    def is_free(self, number: int | None, kept: Kept) -> bool:
        """True if no other place of ours has a number."""
        return number is None or self._ours.get(number, kept.place.id) == kept.place.id

    def of(self, kept: Kept) -> str:
        """A place in words."""
        site = self.site(kept)
        number = kept.shown if kept.place.number is not None or kept.place.lost is None else kept.place.lost
        content = kept.place.shown or kept.place.baseline
        what = site or (None if content is None else content.values[FIELD_NAMES.index("city")]) or "geolocation"
        return f"{what} ({number})"


def words_of(content: Content | None) -> str:
    """What the service has, in words."""
    if content is None:
        return "nothing"
    place = geolocation(-1, content)
    blocks = ", ".join(str(block) for block in place.ipblocks[:_MOST_NAMED])
    more = f" and {len(place.ipblocks) - _MOST_NAMED} more" if len(place.ipblocks) > _MOST_NAMED else ""
    return f"{place.place_text() or 'a geolocation without a name'}" + (f" with {blocks}{more}" if blocks else "")


def _beside(place: Place, theirs: Content | None, asked: Iterable[Intent] = (), *, was: bool = False) -> str:
    """The place as the service has it, in words, with each field and block that is wanted otherwise.

    ``was``: or that it had, since this is something new. ``asked`` are edits that a person is asked about, sent or not.
    """
    if theirs is None:
        return words_of(theirs)
    wanted, also = (place if was else over(place, theirs)).shown, "is still there"
    if wanted is None:  # it shall be deleted: as who asked for that saw it
        wanted, also = next((each.base for each in place.intents if each.what == "delete"), None), "is there, too"
    if wanted is None:
        return words_of(theirs)
    sides = zip(FIELD_NAMES, theirs.values, wanted.values, strict=True)
    found = [f"{name} {_value(now)} instead of {_value(ours)}" for name, now, ours in sides if now != ours]
    if any(each.takes for each in place.intents):  # to take a block, all may have to be deleted
        found += [f"{block} is new there" for block in in_order(strange_blocks(place, theirs) & wanted.blocks)]
    waiting = {each.new for each in place.intents if not any(sent.concerns(each) for sent in place.requests)}
    waiting -= {each.new for each in asked} | (set() if place.baseline is None else place.baseline.blocks)
    found += [f"{block} is missing" for block in in_order(wanted.blocks - theirs.blocks - waiting)]
    found += [f"{block} {also}" for block in in_order(theirs.blocks - wanted.blocks)]
    more = [f"{len(found) - _MOST_NAMED} more"] if len(found) > _MOST_NAMED else []
    return ": ".join(filter(None, (words_of(theirs), ", ".join(found[:_MOST_NAMED] + more))))


def _value(value: object) -> str:
    return "empty" if value in ("", None) else str(value)


def _candidates(place: Place, hold: Hold) -> str:
    """What may be meant: every number, and what the first ones show, no more than a person compares at a glance."""
    found = [(hold.number, hold.theirs), *hold.also]
    words = [f"{number} ({_beside(place, content, was=True)})" for number, content in found[:_MOST_NAMED]]
    return ", or ".join([*words, *(str(number) for number, _ in found[_MOST_NAMED:])])


def why_held(kept: Kept, hold: Hold, names: Names) -> str:
    """The reason of a hold, and what a person may do about it, with `EDIT` for the number of each edit."""
    who, number = names.of(kept), hold.number
    meant = replace(kept.place, intents=kept.place.said_yes) if hold.reason == "not shown" else kept.place
    asked: Iterable[Intent] = meant.in_doubt
    if hold.reason == "conflict" and hold.theirs is not None:
        asked = conflicting(meant, hold.theirs)
    theirs, beside = words_of(hold.theirs), _beside(meant, hold.theirs, asked)
    if kept.place.baseline is None and not kept.place.requests:
        gone = f"nothing here creates {who} any more (edits.db may have been changed by hand, or damaged)"
    else:
        gone = f"{who} is gone from the service, deleted by somebody"
    is_lost = hold.reason == "not shown" and hold.theirs is None
    refused = kept.place.refused if hold.reason == "refused" else None
    said = "" if refused is None else refused.said
    corrected = ""
    if refused is not None and refused.new is not None and refused.new not in {each.new for each in kept.place.intents}:
        corrected = f", `geolookup custom remove-block {kept.shown} {refused.new}` goes on without that block"
    elif refused is not None and (refused.values or refused.new):
        corrected = ", `outbox edit` corrects it"
    others, all_of_it = given_back(kept.place, hold)
    is_wanted = bool(anew(kept.place).intents)
    again = "creates it anew" if is_wanted else "takes it for gone: nothing is created or deleted"
    reasons = {
        "conflict": f"the service has changed {who} since the edit was made: it has {beside}",
        "gone": gone + _holders(hold),
        "another": f"the service has given the number {number} to something else ({theirs}): {who} has none there now"
        f"{_holders(hold)}",
        "not shown": f"the service said yes to edits of {who}, and does not show them: it has {beside}{_holders(hold)}",
        "unclear": f"the service has something new that may be {who}: {_candidates(kept.place, hold)}",
        "refused": f"the service refuses this edit of {who}: {said}{_holders(hold)}",
        "doubted": f"an older copy of the edits was put back, and {who} may have been pushed and changed since: "
        f"the service has {beside}",
    }
    effects = {
        "mine": f"`geolookup outbox retry {EDIT}` sends yours all the same",
        "theirs": f"`geolookup outbox drop {EDIT}` keeps theirs",
        "anew": f"`geolookup outbox retry {EDIT}` {again}",
        "same": f"`geolookup outbox adopt {EDIT} {number}` keeps it as it is there"
        if others
        else ", ".join(
            f"`geolookup outbox adopt {EDIT} {each}` says that {each} is it{'' if is_wanted else ', to be deleted'}"
            for each in [*dict.fromkeys([number, *(also for also, _ in hold.also)])][:_MOST_NAMED]
            if names.is_free(each, kept)
        ),
        "retry": f"`geolookup outbox retry {EDIT}` {again if is_lost else 'sends it again'}{_back(others)}",
        "drop": f"`geolookup outbox drop {EDIT}` gives it up{_back(all_of_it)}{corrected}",
    }
    return (
        f"{reasons[hold.reason]}; {', '.join(filter(None, (effects[choice] for choice in offered(kept.place, hold))))}"
    )


def _back(blocks: Blocks) -> str:
    """The blocks that a choice gives back, in words."""
    return f" and gives {', '.join(map(str, in_order(blocks)[:_MOST_NAMED]))} back" if blocks else ""


def _holders(hold: Hold) -> str:
    """Who has a block that would be refused, and what to do about that."""
    if not hold.also:
        return ""
    who = ", ".join(f"{number} ({words_of(content)})" for number, content in hold.also[:_MOST_NAMED])
    block = "the block" if hold.reason == "refused" else "a block of it"
    return f": {who} has {block}; once that is taken from it there, `geolookup sync` says so"
