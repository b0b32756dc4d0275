"""Arguments of the editor's callers as values: blocks, given as text or objects, and locids of any whole number."""

from operator import index

from geolookup.model.addresses import parse_any, range_ends, to_text
from geolookup.model.errors import EditError, InvalidAddressError, InvalidRangeError, WideBlockError
from geolookup.model.public import too_wide
from geolookup.model.types import IPBlock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from geolookup.model.types import AddressLike, BlockLike


def block_of(first: "BlockLike", last: "AddressLike | None" = None) -> IPBlock:
    """The block from one address to another, or that ``first`` names by itself: a network, an address or a range.

    Each is text, or an object of ``ipaddress`` or ``netaddr``; a range is also an `IPBlock`, or ``first-last``.

    :raises InvalidAddressError: if an end is text, and not an address
    :raises InvalidRangeError: if that is not a range
    """
    if last is not None:
        return IPBlock.parse(_address(first), _address(last))
    if isinstance(first, IPBlock):
        return first
    # Networks and ranges: told by what they have, as `parse_any` tells addresses.
    if getattr(first, "version", None) in (4, 6) and (
        any(hasattr(first, name) for name in ("prefixlen", "network", "last"))
    ):
        first = str(first)
    text = _address(first)
    return IPBlock.parse(*range_ends(text)) if "-" in text else IPBlock.parse(text)


def require_narrow(*blocks: IPBlock, wide: bool) -> None:
    """Refuse blocks that together cover more than a person is likely to mean, unless ``wide`` says that it is meant.

    :raises WideBlockError: with what they cover, in numbers
    """
    if not wide and (told := too_wide(blocks)) is not None:
        raise WideBlockError(told)


def _address(value: object) -> str:
    if isinstance(value, str):
        return value
    try:
        return to_text(*parse_any(value))
    except InvalidAddressError as error:
        if getattr(value, "scope_id", None):
            raise
        raise InvalidRangeError(
            "a block is a network, an address or a range: text, or an object of ipaddress or netaddr, "
            f"not {type(value).__name__}: {value!r:.80}"
        ) from error


def locid_of(value: object) -> int:
    """A locid, of any type that is a whole number.

    :raises EditError: if it is none
    """
    try:
        return index(value)  # type: ignore[arg-type]  # any object may say that it is one
    except TypeError:
        kind = type(value).__name__
        raise EditError(f"a geolocation is named by its locid, a whole number, not {kind}: {value!r:.80}") from None
