"""The rule by which one of the blocks that cover an address answers for it, and its words.

A custom block comes before every default one, and a source before those below it: they are layers, asked in their
order. Inside a layer the narrowest block wins; of two of equal size, the one defined later: its locid is further from
zero, or without numbers it stands later in its file. The two index files, and the sweep of `index.flatten` over whole
columns, hold the rule by construction: the sweep sorts by `order`.
"""

CUSTOM_FIRST = "your own sites come before every source"
LATER_DEFINED = "of networks of equal size, the later defined (its number is further from zero)"
LATER_IN_FILE = "of networks of equal size, the later one in its file"


def order(first: int, last: int, rank: int) -> tuple[int, int]:
    """The sort key of blocks of one layer: the first one wins. ``rank`` is greater for what was defined later."""
    return last - first, -rank


def narrowest(of: str) -> str:
    """The reason of a block that wins by its size, among those of a layer or source."""
    whose = {"custom": "your sites", "default": "the source"}.get(of, of)
    return f"the narrowest network of {whose} that covers it"


def relation(size: int, other: int) -> str:
    """The relation of a block that wins to one of the size ``other`` that it wins against, in another layer or not."""
    return "narrower" if size < other else "wider" if size > other else "as wide, and defined later"
