"""The bad rows of a file: all are counted, the first are named, and one is enough to keep nothing."""

from geolookup.errors import DataFileError

_NAMED = 20


class BadRows:
    """Collects them; true if there is any. ``closing`` says what became of the file, and what to do."""

    def __init__(self, closing: str = "nothing was loaded: correct what is named, and load again") -> None:
        self._closing = closing
        self._named: list[str] = []
        self._count = 0

    def __bool__(self) -> bool:
        return self._count > 0

    def add(self, problem: str | DataFileError) -> None:
        """Note one; its text says in which file and line."""
        self._count += 1
        if len(self._named) < _NAMED:
            self._named.append(str(problem))

    def add_unnamed(self, count: int) -> None:
        """Note more bad rows, of which only the number is known."""
        self._count += count

    def refuse(self) -> None:
        """End the reading, if there was one.

        :raises DataFileError: names the first twenty, and says how many more there are
        """
        if not self._count:
            return
        more = self._count - len(self._named)
        lines = [*self._named, *([f"and {more} more bad {'row' if more == 1 else 'rows'}"] if more else [])]
        raise DataFileError("\n".join([*lines, self._closing]))
