"""How much a source may be, so that no file can fill the memory or be read for ever."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds on one source.

    ``expanded_bytes`` is the most that one file may have after decompression, and ``ratio`` the most bytes that come
    of one compressed byte, once ``ratio_from_bytes`` have come out. ``members`` is the most files in an archive or
    folder, ``depth`` the most layers of compression, ``line_bytes`` the longest line. ``tree_visits`` is how often, on
    average, a node of an MMDB's search tree may be visited: damaged trees have cycles. A source may leave out
    ``bad_rows`` rows, or the share ``bad_rows_share`` of all, whichever is greater.
    """

    expanded_bytes: int = 16 << 30
    ratio: int = 200
    ratio_from_bytes: int = 16 << 20
    members: int = 1000
    depth: int = 3
    line_bytes: int = 1 << 20
    tree_visits: int = 4
    bad_rows: int = 10
    bad_rows_share: float = 0.01

    def bad_rows_allowed(self, rows: int) -> int:
        """How many of so many rows may be bad."""
        return max(self.bad_rows, int(self.bad_rows_share * rows))
