"""What others changed of sites since a file of them was made, so that applying it does not revert that without a word.

An export says what each site was (`digest_of`), and of which moment it is. A file that says nothing is held against the
last apply, of which the digests are kept: of what others changed at the service nothing else tells.
"""

import functools
import hashlib
import json
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from geolookup.base.text import count
from geolookup.model.errors import ChangedSinceError
from geolookup.model.fields import FIELD_NAMES
from geolookup.model.types import Geolocation
from geolookup.sites.site import TIME_ZONE, Problem, Problems, Site, Where, blocks_text
from geolookup.state.base.actor import who
from geolookup.state.edits.outbox.payload import content_of, described, values_of, written
from geolookup.state.edits.places.place import Content
from geolookup.state.edits.session import EditSession
from geolookup.state.edits.steps import Line

#: Whose version of a site is kept: ``theirs`` is what it is now, ``mine`` what the file says.
Whose = Literal["theirs", "mine"]
#: What edits.db keeps by this name and the VRF: the sites of which a person said that theirs stays, each with the two
#: versions.
_DECIDED: Final = "sites_theirs"
#: And by this one: the `digest_of` each site of the global table as the last apply left it, by its number here.
_LEFT: Final = "sites_left"
_LETTERS: Final = bytes.maketrans(b"0123456789abcdef", b"abcdefghijklmnop")
_DIGEST_LETTERS: Final = 12
_MOST_NAMED: Final = 20
_ADDS: Final = "add "


def digest_of(content: Content) -> str:
    """A site's content in twelve letters; of letters alone, since a spreadsheet makes numbers of many digits."""
    digest = hashlib.sha256(written(described(content)).encode("utf-8", "surrogatepass")).hexdigest().encode()
    return digest.translate(_LETTERS)[:_DIGEST_LETTERS].decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """What a person says of sites that others changed: by their names, and of all ``others``.

    ``absent`` is true if sites that an earlier file named and this one does not shall stay as they are.
    """

    sites: Mapping[str, Whose]
    others: Whose | None = None
    absent: bool = False

    def of(self, name: str) -> Whose | None:
        """Whose version of this site is kept, None if nobody says it."""
        return self.sites.get(name, self.others)


def applying(file: str, keep: Keep | None) -> str:
    """What the history says from where the changes of a file come, also of one that only adds and changes."""
    return f"{_ADDS if keep is not None and keep.absent else 'apply '}{file}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """A site that is not what the file was made from: what it was (``base``), is now, and shall be by the file.

    None stands for a site that is not there; ``is_known`` is false if nobody knows what it was. ``line`` says who
    changed it last, None if the service did. ``labels`` are its name and time zone, if others changed those: which of
    the two, and its three versions.
    """

    name: str
    vrf: str
    base: Content | None
    theirs: Content | None
    mine: Content | None
    line: Line | None
    is_known: bool = True
    labels: tuple[tuple[str, str, str, str], ...] = ()

    def columns(self) -> list[tuple[str, str, str, str]]:
        """The fields that others changed and the file has otherwise, each with its text in the three versions."""
        texts = [_texts(content) for content in (self.base, self.theirs, self.mine)]
        if not self.is_known:
            texts[0] = dict.fromkeys(texts[0], "?")
        rows = [(name, *(each[name] for each in texts)) for name in texts[0]]
        return [
            (name, base, theirs, mine) for name, base, theirs, mine in (*self.labels, *rows) if mine != theirs != base
        ]

    def own(self) -> str:
        """The fields that the file changes and nobody else did, each as the file has it, in words."""
        base, theirs, mine = (_texts(content) for content in (self.base, self.theirs, self.mine))
        found = [name for name in mine if mine[name] != theirs[name] == base[name]] if self.is_known else []
        return ", ".join(f"{name} {mine[name] or 'empty'}" for name in found)

    @property
    def reverts(self) -> bool:
        """True if the file would take back what others did: they deleted it or the file does, or a field differs."""
        return self.theirs is None or self.mine is None or bool(self.columns())

    def who(self) -> str:
        """Who did what."""
        if self.theirs is None and not self.is_known:
            return "nothing here is what it was: somebody deleted or changed it, or it is of another machine"
        if self.line is None:
            return f"the service {'deleted' if self.theirs is None else 'changed'} it"
        if self.line.undoes:  # what stands is not theirs
            return f"{self.line.who} undid a change of it"
        verb = "deleted" if self.theirs is None else "added" if self.base is None and self.is_known else "changed"
        return f"{self.line.who} {verb} it"

    def describe(self) -> str:
        """Who did what and when, and what the file says."""
        of = f"{self.name} of the VRF {self.vrf}" if self.vrf else self.name
        who = self.who() if self.line is None else f"{self.who()} at {self.line.at} ({self.line.via})"
        if self.mine is None:
            return f"{of}: {who}, and the file does not have it"
        if self.theirs is None:
            return f"{of}: {who}, and the file has it"
        told = "; ".join(
            f"{name} was {base or 'empty'}, is {theirs or 'empty'}, and {mine or 'empty'} in the file"
            for name, base, theirs, mine in self.columns()
        )
        also = f"; the file also changes it, to {own}" if (own := self.own()) else ""
        return f"{of}: {who}: {told}{also}"

    def problems(self, where: Where | None) -> list[Problem]:
        """Each value that differs, for ``--json`` and ``--report``; ``where`` is the site in the file, if there."""
        return [
            Problem(
                kind="changed since the file was made",
                message=self.describe(),
                line=None if where is None else where.line(field),
                site=self.name,
                column=field if where is None else where.columns.get(field, field),
                value=mine,
                was=base,
                theirs=theirs,
                word="line" if where is None else where.word,
            )
            for field, base, theirs, mine in self.columns()
        ]


def _texts(content: Content | None) -> dict[str, str]:
    if content is None:
        return dict.fromkeys((*FIELD_NAMES, "blocks"), "")
    blocks: Iterable[Any] = content.blocks
    fields = {name: "" if value is None else str(value) for name, value in content.fields.items()}
    return {**fields, "blocks": blocks_text(blocks)}


@dataclass(frozen=True, slots=True)
class Asked:
    """What a person says of sites that others changed, and those of which nothing is said."""

    keep: Keep
    conflicts: list[Conflict]
    problems: Problems

    def stays(self, conflict: Conflict | None, where: Where | None = None) -> bool:
        """True if what others did stays."""
        whose = None if conflict is None else self.keep.of(conflict.name)
        if conflict is not None and whose is None:
            self.conflicts.append(conflict)
            self.problems.asked.extend(conflict.problems(where))
        return whose == "theirs"


def require_kept(conflicts: Iterable[Conflict], file: str) -> None:
    """Refuse to apply a file over what others changed.

    :raises ChangedSinceError: names each site, who changed it and when, and says what to do
    """
    found = list(conflicts)
    if not found:
        return
    named = [conflict.describe() for conflict in found[:_MOST_NAMED]]
    more = [f"and {len(found) - _MOST_NAMED} more"] if len(found) > _MOST_NAMED else []
    say = (
        "Say which to keep: --keep theirs leaves them as they are now, --keep mine makes them as the file says, "
        f"--keep {shlex.quote(f'{found[0].name}=theirs')} is about one. "
        "--report FILE.csv writes the three versions side by side. Nothing was changed"
    )
    head = f"{file}: {count(len(found), 'site')} changed since the file was made, not by it:"
    raise ChangedSinceError(head, *named, *more, say)


class Since:
    """The changes since a file of sites was made, or, if it does not say when, since the last apply.

    It must be made before the session makes edits of its own. ``sent`` has the fields of places as a service was sent
    them, where it stores others: by their number.
    """

    def __init__(
        self, session: EditSession, sites: Iterable[Site], *, vrf: str = "", sent: Mapping[int, Mapping[str, Any]] = {}
    ) -> None:
        self._session = session
        #: The VRF whose sites these are, "" of the global table.
        self.vrf = vrf
        self._sent = sent
        #: Of each site of which a person has said that theirs stays, the `version` of which it was said.
        self.decided: dict[str, list[str]] = json.loads(session.outbox.setting(_DECIDED + vrf) or "{}")
        applied = {} if vrf else json.loads(session.outbox.setting(_LEFT) or "{}")
        steps = session.steps
        last = steps.applied(vrf) or 0
        #: The digest that the last apply left of each place, by its number here now: it may have another one since.
        self._applied: dict[str, str] = {str(steps.now(int(local), last)): left for local, left in applied.items()}
        #: Those that stay now, and the names of those of which that was said earlier.
        self._theirs: dict[str, list[str]] = {}
        self.again: list[str] = []
        #: What is not made of the file, since what others did of these sites stays now, in words.
        self.left_out: list[str] = []
        moments = [site.made_at for site in sites if site.made_from]
        moment = max(moments, default="")
        base = session.steps.line_at(moment) if moment else session.steps.applied(vrf)
        self._has_base = base is not None or bool(moments)
        #: How many sites of the file were made from each digest; and if it is an export of this very state.
        self._made_from = Counter(site.made_from for site in sites if site.made_from)
        self._is_of_here = bool(moment) and base is not None
        # A moment of another machine is told by the clock alone.
        since = moment if base is None else ""
        lines = session.steps.lines(after=base or 0, since=since) if self._has_base else []
        if not moment:  # a user who added sites by one file expects no question about them with the next
            lines = [line for line in lines if not (line.via.startswith(_ADDS) and line.who == who())]
        self._places: dict[Any, list[Line]] = {}
        self._named: dict[str, int] = {}
        #: The same, of names that changed after the last apply alone.
        self._moved: dict[str, int] = {}
        self._gave: dict[int, Line] = {}
        #: By geolocation the first line that changed its name or time zone, and what they were before it.
        self._labels: dict[int, tuple[Line, tuple[str, str]]] = {}
        own = (session.steps.applied(vrf) or 0) if lines and not vrf else 0
        for line in lines:
            if line.vrf == vrf and vrf:
                self._places.setdefault(line.name, []).append(line)
            elif not vrf and not line.vrf and line.place:
                self._places.setdefault(session.shown(line.place), []).append(line)
            for name, (was, became) in () if vrf else line.names.items():
                if was is not None:
                    shown = session.shown(was.locid)
                    self._named.setdefault(name, shown)
                    if line.number > own:
                        self._labels.setdefault(shown, (line, (name, was.time_zone)))
                        self._moved.setdefault(name, shown)
                if became is not None:
                    self._gave[session.shown(became.locid)] = line

    @staticmethod
    def version(site: Site, place: Geolocation | None, called: tuple[str, str] | None) -> list[str]:
        """A site as it is called, and is, and as the file has it: until that changes, a person has said what stays."""
        mine = digest_of(Content(values_of(site.fields), frozenset(site.blocks)))
        theirs = "" if place is None else digest_of(content_of(place))
        return [*(called or ("", "")), theirs, mine, site.time_zone or ""]

    def stays(
        self,
        asked: Asked,
        site: Site,
        place: Geolocation | None,
        former: int | None = None,
        called: tuple[str, str] | None = None,
    ) -> bool:
        """True if what others did of a site of the file stays: a person says so, or said it of just this. See `of`."""
        version = self.version(site, place, called)
        return self._stays(asked, site.name, version, self.of(site, place, former, called), site.where)

    def stays_absent(self, asked: Asked, name: str, place: Geolocation) -> bool:
        """The same of a place that the file does not have, if not all of those stay. See `of_absent`."""
        version = ["", "", digest_of(content_of(place)), "", ""]
        return asked.keep.absent or self._stays(asked, name, version, self.of_absent(name, place))

    def _stays(
        self, asked: Asked, name: str, version: list[str], found: Conflict | None, where: Where | None = None
    ) -> bool:
        again = asked.keep.of(name) != "mine" and self.decided.get(name) == version
        if not again and not asked.stays(found, where):
            return False
        self.again += [name] if again else []
        if found is not None and not again and found.theirs and found.mine and (own := found.own()):
            self.left_out.append(f"{name} stays as others left it, so this of the file is not made: {own}")
        self._theirs[name] = version
        return True

    def note_apply(self, names: Mapping[str, int], *, adds: bool = False) -> None:
        """Note in a session that may write that a file is applied: what was decided, and what its sites are now.

        ``names`` has the number of each in lookups; those of a VRF, which no service changes, need none. A file that
        only ``adds`` says nothing of all others: the next one is held against the apply before.
        """
        session, layer = self._session, self._session.layer
        left = {
            str(session.local(locid)): digest_of(content_of(layer[locid].place))
            for locid in names.values()
            if locid in layer
        }
        for what, now, was in ((_DECIDED + self.vrf, self._theirs, self.decided), (_LEFT, left, self._applied)):
            if (kept := {**was, **now} if adds else now) != was:
                session.outbox.keep_setting(what, json.dumps(kept))
        if not adds:
            session.steps.note_apply(self.vrf)

    def of(
        self,
        site: Site,
        place: Geolocation | None,
        former: int | None = None,
        called: tuple[str, str] | None = None,
    ) -> Conflict | None:
        """The conflict about a site of the file: its place as it is now, None if it is still to be created.

        ``former`` is the number that a site of this name had, ``called`` the name and time zone that its place has.
        """
        found = self._of_content(site, place, former)
        found = found if found is not None and found.reverts else self._left(site, place, called)
        if place is None or called is None or place.locid not in self._labels:
            return found
        line, was = self._labels[place.locid]
        mine = site.name, called[1] if site.time_zone is None else site.time_zone
        if called in (was, mine):
            return found
        versions = zip(("name", TIME_ZONE), was, called, mine, strict=True)
        labels = tuple(each for each in versions if each[2] != each[3])
        if found is None:
            theirs = content_of(place)
            found = self._conflict(site.name, theirs, theirs, theirs, self._gave.get(place.locid, line))
        return replace(found, labels=labels)

    def _left(self, site: Site, place: Geolocation | None, called: tuple[str, str] | None) -> Conflict | None:
        """The conflict about a site that a person left as others made it, if the file says of it what it did not then.

        No file changed the site since then, so the last apply cannot be the base.
        """
        said, now = self.decided.get(site.name), self.version(site, place, called)
        if place is None or said is None or said[:3] != now[:3] or said == now or site.made_from:
            return None
        theirs, mine = content_of(place), Content(values_of(site.fields), frozenset(site.blocks))
        labels = (("name", "?", called[0], site.name),) if called and called[0] != site.name else ()
        if mine == theirs and not labels:
            return None
        line = next(reversed(self._history(site.name, place)), None)
        return replace(self._conflict(site.name, None, theirs, mine, line), is_known=False, labels=labels)

    def _of_content(self, site: Site, place: Geolocation | None, former: int | None) -> Conflict | None:
        mine = Content(values_of(site.fields), frozenset(site.blocks))
        theirs = None if place is None else content_of(place)
        if not self._has_base or mine == theirs:
            return None
        if place is not None and not self.vrf and (overtaken := self._session.overtaken(place.locid)) is not None:
            return self._conflict(site.name, *overtaken, mine, None)  # else the edit is taken back, and theirs with it
        key = self._key(site.name, place, former)
        lines = self._places.get(key, [])
        if place is None:
            if lines and lines[0].before is not None and lines[-1].after is None:
                return self._conflict(site.name, lines[0].before, None, mine, lines[-1])
            local = None if self.vrf or former is None else self._session.local(former)
            was = None
            if local is not None and (site.made_from or str(local) in self._applied):
                was = self._session.ledger.last_of(local)
            if was is not None or self._is_gone(site):
                return replace(self._conflict(site.name, was, None, mine, None), is_known=was is not None)
            return None
        made_from = site.made_from or ("" if lines else self._applied.get(str(self._session.local(place.locid)), ""))
        if made_from:
            return self._by_digest(site.name, made_from, place, lines, mine)
        if not lines or lines[0].before == theirs:
            return None
        return self._conflict(site.name, lines[0].before, theirs, mine, lines[-1])

    def _is_gone(self, site: Site) -> bool:
        """True if nothing here is, or was since, what the file was made from, though it is an export of this state.

        Any other file, as that of an earlier state, makes what it has.
        """
        if self.vrf or self._made_from[site.made_from] != 1:  # of a row that was copied, one alone was there
            return False
        is_of_here = self._is_of_here or not self._digests.keys().isdisjoint(self._made_from)
        return is_of_here and site.made_from not in self._digests

    def made_of(self, site: Site) -> int | None:
        """The number of the geolocation that a row of an export was made from: it is that now, or was before it
        changed since. None if nothing or several were that, or the row was copied.
        """
        numbers = self._digests.get(site.made_from, ()) if self._made_from[site.made_from] == 1 else ()
        return next(iter(numbers)) if len(numbers) == 1 else None

    @functools.cached_property
    def _digests(self) -> dict[str, set[int]]:
        """The numbers of the geolocations that are a content now or, if none is, were it before they changed since; by
        its digest.
        """
        now: dict[str, set[int]] = {}
        was: dict[str, set[int]] = {}
        for number, laid in self._session.layer.items():
            contents = {content := content_of(laid.place)}
            if number in self._sent:
                contents.add(Content(values_of(self._sent[number]), content.blocks))
            for each in contents:
                now.setdefault(digest_of(each), set()).add(number)
        for number, lines in self._places.items():
            for each in (line.before for line in lines if line.before is not None):
                was.setdefault(digest_of(each), set()).add(number)
        return was | now

    def _by_digest(
        self, name: str, made_from: str, place: Geolocation, lines: list[Line], mine: Content | None
    ) -> Conflict | None:
        theirs = content_of(place)
        fields = self._sent.get(place.locid)
        as_sent = theirs if fields is None else Content(values_of(fields), theirs.blocks)
        if made_from in (digest_of(theirs), digest_of(as_sent)):
            return None
        known = self._history(name, place)
        contents = [content for line in known for content in (line.before, line.after) if content is not None]
        base = next((content for content in contents if digest_of(content) == made_from), None)
        if not lines and base is None and known and known[-1].after in (theirs, as_sent):
            return None  # what was changed last was there already: the file is of another machine
        last = lines[-1] if lines else None
        return replace(self._conflict(name, base, theirs, mine, last), is_known=base is not None)

    def _history(self, name: str, place: Geolocation) -> list[Line]:
        if self.vrf:
            return [line for line in self._session.steps.lines(place=place.locid) if line.name == name]
        return self._session.steps.lines(place=self._session.local(place.locid))

    def of_absent(self, name: str, place: Geolocation) -> Conflict | None:
        """The conflict about a place that the file does not have, so that applying it would delete it."""
        theirs = content_of(place)
        lines = self._places.get(self._key(name, place, None), [])
        if lines and lines[0].before != theirs:
            return self._conflict(name, lines[0].before, theirs, None, lines[-1])
        if (gave := None if self.vrf else self._gave.get(place.locid)) is not None:
            return self._conflict(name, None, theirs, None, gave)
        left = "" if lines or not self._has_base else self._applied.get(str(self._session.local(place.locid)), "")
        return self._by_digest(name, left, place, lines, None) if left else None

    def moved(self, name: str) -> int | None:
        """The number of the place that had a name at the last apply, if another one has had it since."""
        return self._moved.get(name)

    def former(self, name: str) -> int | None:
        """The number that a site of this name had, before another file left it out or somebody renamed it."""
        return self._named.get(name)

    def _key(self, name: str, place: Geolocation | None, former: int | None) -> Any:
        if self.vrf:
            return name
        return former if place is None else place.locid

    def _conflict(
        self, name: str, base: Content | None, theirs: Content | None, mine: Content | None, line: Line | None
    ) -> Conflict:
        return Conflict(name=name, vrf=self.vrf, base=base, theirs=theirs, mine=mine, line=line)
