"""What cache.db answers with, by plain loops over plain rows."""

from collections.abc import Iterable, Mapping

#: (family, first, last)
Range = tuple[int, int, int]
#: By locid: what the fields are, and the ranges.
Rows = Mapping[int, tuple[str, frozenset[Range]]]


def difference(old: Rows, new: Rows) -> dict[str, dict[str, int]]:
    """Geolocations and blocks added, removed and changed: a changed block has the same range elsewhere now."""
    before = {(locid, block) for locid, (_, blocks) in old.items() for block in blocks}
    after = {(locid, block) for locid, (_, blocks) in new.items() for block in blocks}
    added, removed = after - before, before - after
    moved = {block for _, block in added} & {block for _, block in removed}
    return {
        "geolocations": {
            "added": len(set(new) - set(old)),
            "removed": len(set(old) - set(new)),
            "changed": sum(locid in old and old[locid] != new[locid] for locid in new),
        },
        "blocks": {"added": len(added) - len(moved), "removed": len(removed) - len(moved), "changed": len(moved)},
    }


def covering(rows: Rows, family: int, value: int) -> set[tuple[int, Range]]:
    """Every block that covers an address, with its locid."""
    return {
        (locid, block)
        for locid, (_, blocks) in rows.items()
        for block in blocks
        if block[0] == family and block[1] <= value <= block[2]
    }


def equal_without_case(wanted: str, texts: Iterable[str]) -> list[str]:
    """The texts that equal the wanted one, letter by letter without regard to case."""
    return [text for text in texts if text.casefold() == wanted.casefold()]
