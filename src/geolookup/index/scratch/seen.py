"""Which whole numbers came already: 8 bytes for each, where a set of Python's takes a hundred."""

from array import array
from bisect import bisect_left

import numpy as np

#: As many that came out of order are kept in a set, until they are sorted in among the others.
_LATE = 1 << 16


class Seen:
    """Whole numbers of 64 bits, each of which may come once. Cheapest if they ascend."""

    def __init__(self) -> None:
        self._sorted = array("q")
        self._late: set[int] = set()

    def add(self, number: int) -> bool:
        """Note a number; false if it has come before."""
        known = self._sorted
        if not known or number > known[-1]:
            # One that is late lies below the highest of its time, so it is none of these.
            known.append(number)
            return True
        at = bisect_left(known, number)
        if known[at] == number or number in self._late:
            return False
        self._late.add(number)
        if len(self._late) == _LATE:
            late = np.fromiter(self._late, np.int64, len(self._late))
            together = np.sort(np.concatenate([np.frombuffer(known, np.int64), late]), kind="stable")
            self._sorted = array("q")
            self._sorted.frombytes(together.data.cast("B"))
            self._late.clear()
        return True
