"""The digest of one geolocation with its blocks, by which two lists are compared."""

import hashlib

from geolookup.model.types import Geolocation, field_values


def digest(place: Geolocation) -> str:
    """A short text of a geolocation's number, fields and blocks: the same as its row in cache.db has."""
    import msgspec  # late: an edit needs it once in a generation

    blocks = [(block.family, block.first, block.last) for block in sorted(place.ipblocks)]
    content = msgspec.json.encode((place.locid, field_values(place), blocks))
    return hashlib.blake2b(content, digest_size=32).hexdigest()[:32]
