"""One source, which may feed both layers: its places to one staging, its networks to another."""

import contextlib
import hashlib
from collections.abc import Mapping
from typing import Any, Self

from geolookup.index.builder import IndexBuilder
from geolookup.sources.blocks import Batch, NetworkBatch
from geolookup.sources.locids import Numbering
from geolookup.sources.protocol import Gathered
from geolookup.sources.recorded import Records
from geolookup.state.base import files
from geolookup.state.base.candidate import Candidate
from geolookup.state.base.parts import BOTH, NETWORK
from geolookup.state.generations.assemble import counts_of
from geolookup.sync.pull.recording import RecordStaging
from geolookup.sync.pull.staging import ColumnStaging, Staged

#: Before the names of the counts that are of networks.
_OF_NETWORKS = "network_"


class SourceStaging:
    """Takes a source's batches: those of places to its cache.db and index, those of networks to their own index.

    Each is begun when its first batch comes, so that what a source says nothing of is not there.
    """

    def __init__(self, candidate: Candidate, name: str, gathered: Gathered, numbering: Numbering) -> None:
        """``name`` is the source's; ``gathered`` has the tables that the batches' numbers are of."""
        self._candidate, self._name, self._gathered, self._numbering = candidate, name, gathered, numbering
        self._opened = contextlib.ExitStack()
        self._places: ColumnStaging | None = None
        self._networks: NetworkStaging | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self._opened.__exit__(*error)

    def add(self, batch: Batch) -> None:
        """Add blocks whose places or facts are all in their table by now.

        :raises StateUnwritableError: if the disk is full, or fails
        """
        if isinstance(batch, NetworkBatch):
            self._networks = self._networks or NetworkStaging(self._candidate, self._name, self._gathered.networks)
            self._networks.add(batch)
        else:
            self._begun_places().add(batch)

    def _begun_places(self) -> "ColumnStaging":
        if self._places is None:
            found = ColumnStaging(
                self._candidate, self._name, self._gathered.places, self._numbering, self._gathered.records
            )
            self._places = self._opened.enter_context(found)
        return self._places

    def finish(self, about: Mapping[str, str]) -> Staged:
        """Complete what was begun durably, once the source's last batch was added. ``about`` goes into cache.db.

        The digest is that of the one layer, or is made of those of both.
        """
        if self._networks is None:
            return self._begun_places().finish(about)  # a list may have places without blocks
        networks = self._networks.finish()
        if self._places is None:
            return networks
        places = self._places.finish(about)
        digest = hashlib.sha256(f"{places.digest}:{networks.digest}".encode()).hexdigest()
        own = {name: value for name, value in networks.rows.items() if name.startswith(_OF_NETWORKS)}
        return Staged(rows={**places.rows, **own}, digest=digest, layer=BOTH)


class NetworkStaging:
    """Takes a source's batches of networks: their facts and blocks go to the candidate's index of networks."""

    def __init__(self, candidate: Candidate, name: str, networks: Records) -> None:
        """``name`` is the source's; ``networks`` the table that the batches' numbers are of, which may still grow."""
        self._candidate = candidate
        self._index = IndexBuilder("network", source=name, later_wins=True, folder=candidate.path)
        self._records = RecordStaging(networks, self._index, candidate)
        self._blocks = 0

    def add(self, batch: Batch) -> None:
        """Add blocks whose facts are all in the table by now.

        :raises StateUnwritableError: if the disk is full, or fails
        """
        self._blocks += len(batch)
        self._records.add(batch)

    def finish(self) -> Staged:
        """Complete the index durably, once the source's last batch was added.

        The digest depends on the facts and on the blocks in their order: of two that are equal, the later wins.
        """
        digest = self._records.digest(f"{self._blocks}")
        with files.file_errors(self._candidate.network):
            summary = self._index.write(self._candidate.network, extra={"digest": digest})
        counts = {"blocks": self._blocks, **counts_of(summary)}
        rows = {
            **dict.fromkeys(("geolocations", "custom_geolocations", "blocks", "custom_blocks", "masks"), 0),
            **{name: type(value)() if isinstance(value, int) else "0" for name, value in counts_of(summary).items()},
            **{f"{_OF_NETWORKS}{name}": value for name, value in counts.items()},
        }
        return Staged(rows=rows, digest=digest, layer=NETWORK)
