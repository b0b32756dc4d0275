"""Reading what may be packed: light, for whoever opens a file of a snapshot or kept generation."""

import os


def readable(path: str) -> str:
    """The path itself if the file is there; if it is packed, that of the same file made again.

    A path that is neither comes back as it is, so whoever opens it says what is wrong.

    :raises StateDamagedError: if what is packed is damaged
    :raises StateUnwritableError: if the disk is too full to make it again
    """
    if os.path.exists(path):
        return path
    from geolookup.state.packs.packed import made_again  # late: it needs numpy, and this is the rare way

    return made_again(path)
