"""Compiling the layers of VRFs: each alone, and only if it changed since it was compiled last."""

import contextlib
import os
from collections.abc import Mapping
from typing import Protocol

from geolookup.index.builder import IndexBuilder
from geolookup.index.mapped import header_of
from geolookup.model.errors import StateError
from geolookup.state.base import files
from geolookup.state.base.current import Current
from geolookup.state.base.vrfs import ListedVrf, encoded, folder, layer_path, list_path, read_vrfs
from geolookup.state.edits.local import LocalEdits
from geolookup.state.edits.vrfs import VrfPlaces
from geolookup.state.generations.assemble import link_file
from geolookup.state.generations.retention import temporary_path


class Vrfs(Protocol):
    """The VRFs that there are."""

    def revisions(self) -> dict[str, int]:
        """Their names, each with a number that another content does not have."""
        ...

    def write(self, name: str, path: str) -> None:
        """Write the layer of one to a new file, durably."""
        ...


class VrfsOfEdits:
    """The VRFs that edits.db has."""

    def __init__(self, local: LocalEdits) -> None:
        self._local = local

    def revisions(self) -> dict[str, int]:
        """See `Vrfs`.

        :raises EditsDamagedError: if edits.db is damaged
        """
        return self._local.of_vrfs(VrfPlaces.revisions)

    def write(self, name: str, path: str) -> None:
        """See `Vrfs`."""
        places, facts = self._local.of_vrfs(lambda vrfs: (vrfs.places(name), vrfs.facts(name)))
        builder = IndexBuilder("custom", records=bool(places))
        builder.add_places([(place, False) for place in places.values()], facts)
        builder.write(path)


class VrfsOfFleet:
    """The VRFs that a reader received, as compiled files, each with its SHA-256."""

    def __init__(self, received: Mapping[str, tuple[str, str]]) -> None:
        self._received = received

    def revisions(self) -> dict[str, int]:
        """See `Vrfs`."""
        return {name: int(sha256[:12], 16) for name, (_, sha256) in self._received.items()}

    def write(self, name: str, path: str) -> None:
        """See `Vrfs`."""
        link_file(self._received[name][0], path)


class VrfLayers:
    """The layers of VRFs that a publish goes with; ``made`` are the files that it wrote for them."""

    def __init__(self, home: str, current: Current | None, vrfs: Vrfs) -> None:
        self._home = home
        self._current = current
        self._vrfs = vrfs
        self.made: list[str] = []

    def compiled(self) -> int:
        """The number of the list of all VRFs that there are: that of before if nothing changed, 0 if none are."""
        revisions = self._vrfs.revisions()
        before = self._before()
        if {name: each.revision for name, each in before.items()} == revisions:
            return 0 if self._current is None or not revisions else self._current.vrfs
        if not revisions:
            return 0
        files.make_directory(folder(self._home))
        number = self._newest()
        listed = []
        for name, revision in sorted(revisions.items()):
            known = before.get(name)
            if known is None or known.revision != revision:
                number += 1
                known = ListedVrf(name, number, revision, self._compile(name, number))
            listed.append(known)
        path = list_path(self._home, number + 1)
        files.replace_durably(path, encoded(listed))
        self.made.append(path)
        return number + 1

    def take_back(self) -> None:
        """Remove what was written: CURRENT was not replaced."""
        for path in self.made:
            files.remove_file(path)

    def _before(self) -> dict[str, ListedVrf]:
        if self._current is None:
            return {}
        with contextlib.suppress(StateError):  # a list that is damaged is made anew
            found = read_vrfs(self._home, self._current)
            if all(_is_there(layer_path(self._home, each.number), each) for each in found.values()):
                return found
        return {}

    def _newest(self) -> int:
        names = (name.removesuffix(".json") for name in files.names_in(folder(self._home)))
        return max((int(name) for name in names if name.isdecimal()), default=0)

    def _compile(self, vrf: str, number: int) -> dict[str, int | str]:
        path = layer_path(self._home, number)
        draft = temporary_path(path)
        self.made.append(path)
        try:
            with files.file_errors(path):
                self._vrfs.write(vrf, draft)
            record = files.file_record(draft)
            places = header_of(draft).counts["locations"]
            files.rename_durably(draft, path)
        except BaseException:
            files.remove_file(draft)
            raise
        return {**record, "places": places}


def _is_there(path: str, listed: ListedVrf) -> bool:
    try:
        return os.stat(path).st_size == int(listed.file["bytes"])
    except OSError:
        return False


def remove_unlisted(home: str, current: Current) -> None:
    """Remove the files of VRFs that CURRENT does not name, after a publish; failures wait for the next time."""
    if not os.path.isdir(folder(home)):
        return
    wanted = set()
    if current.vrfs:
        wanted.add(os.path.basename(list_path(home, current.vrfs)))
        wanted |= {os.path.basename(layer_path(home, each.number)) for each in read_vrfs(home, current).values()}
    for name in files.names_in(folder(home)):
        if name not in wanted:
            files.remove_file(os.path.join(folder(home), name))
