"""The facts of networks that files say: their names, by GeoIP2's keys, and their values, from MaxMind DBs and tables.

A fact is a value of `mmdb` by its key. What a file calls otherwise is known by other names (``asn``, ``as_name``,
``is_vpn``); a key that is not known here stays as it is. AS numbers are read in all of their forms; 0 stands for none.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Literal, NamedTuple, TypeAlias

from geolookup.index import mmdb
from geolookup.model.facts import NETWORK_FACTS
from geolookup.sources.places import BadFieldError, text

_Kind: TypeAlias = Literal["asn", "text", "flag", "count", "score"]

_PREFIX = "traits."
#: Why a value is not kept whose fact another key or column says as well.
SAID_BEFORE = "{} says this fact, too, and counts"
#: The keys of an AS's number and organisation.
ASN, AS_ORGANIZATION = (NETWORK_FACTS[name].path.removeprefix(_PREFIX) for name in ("asn", "as_organization"))


class _Fact(NamedTuple):
    """A fact: its kind, and the names that files have for it in place of its own key."""

    kind: _Kind
    names: tuple[str, ...] = ()


_KINDS: dict[str, _Kind] = {"uint32": "asn", "boolean": "flag", "text": "text"}
#: Further names of the typed facts.
_NAMES = {
    "asn": ("as_number", "asnumber"),
    "as_organization": ("as_name", "asname", "as_org"),
    "is_anonymous_vpn": ("is_vpn", "vpn"),
    "is_hosting_provider": ("is_hosting", "hosting"),
    "is_tor_exit_node": ("is_tor", "tor"),
    "is_anycast": ("anycast",),
}
_FACTS: dict[str, _Fact] = {
    **{
        fact.path.removeprefix(_PREFIX): _Fact(_KINDS[fact.kind], (name, *_NAMES.get(name, ())))
        for name, fact in NETWORK_FACTS.items()
    },
    # Those that have no type of their own.
    **dict.fromkeys(("is_anonymous_proxy", "is_legitimate_proxy"), _Fact("flag")),
    "is_satellite_provider": _Fact("flag", ("is_satellite", "satellite")),
    "is_mobile": _Fact("flag", ("mobile",)),
    "is_proxy": _Fact("flag", ("proxy",)),
    "is_relay": _Fact("flag", ("relay",)),
    **dict.fromkeys(("anonymizer_confidence", "user_count"), _Fact("count")),
    "static_ip_score": _Fact("score"),
    **dict.fromkeys(("network_last_seen", "provider_name", "mobile_country_code"), _Fact("text")),
    **dict.fromkeys(("mobile_network_code", "as_domain", "as_type", "as_country_code"), _Fact("text")),
}
_KEYS = {name: key for key, fact in _FACTS.items() for name in (key, *fact.names)}

_ASN = re.compile(r"(?:ASN?\s?)?([0-9]{1,10})(?:\.([0-9]{1,5}))?", re.ASCII | re.IGNORECASE)
_LARGEST_ASN = (1 << 32) - 1
_LARGEST_HALF = 0xFFFF
#: Texts that stand for nothing known: in place of a text, and of a number or flag.
_NO_TEXT = frozenset(("", "-"))
_NOTHING = frozenset((*_NO_TEXT, "none", "null", "n/a", "na"))
_FLAGS = {
    **dict.fromkeys(("true", "yes", "1", "t", "y"), True),
    **dict.fromkeys(("false", "no", "0", "f", "n"), False),
}


def key_of(name: str) -> str | None:
    """The key of the fact that a file's key or column is, or None if it is not known as one."""
    return _KEYS.get(name)


def path_of_fact(name: str) -> str:
    """Where in records the fact of a file's key or column stands."""
    return f"{_PREFIX}{key_of(name) or name}"


def as_number(value: str) -> int:
    """The AS number that a text is (``15169``, ``AS15169``, ``1.10``); 0 if it says none.

    :raises BadFieldError: if it is none
    """
    value = value.strip()
    if value.lower() in _NOTHING:
        return 0
    found = _ASN.fullmatch(value)
    if found is None:
        raise BadFieldError(f"{value!r:.40} is not an AS number: write 15169 or AS15169")
    number = int(found[1])
    if found[2] is not None:
        lower = int(found[2])
        if not lower:  # a spreadsheet wrote 15169 so; no AS number in use ends in .0
            raise BadFieldError(f"{value!r:.40} may be an AS number with a decimal point: write {found[1]}")
        if number > _LARGEST_HALF or lower > _LARGEST_HALF:
            raise BadFieldError(f"{value!r:.40} is not an AS number: its halves have 16 bits each")
        number = number << 16 | lower
    if number > _LARGEST_ASN:
        raise BadFieldError(f"{value!r:.40} is not an AS number: the greatest is {_LARGEST_ASN}")
    return number


def said_before(names: Iterable[str]) -> dict[str, str]:
    """Of names in their order, those of a fact that a name before them is of too, each with that name."""
    first: dict[str, str] = {}
    return {name: first[key] for name in names if first.setdefault(key := key_of(name) or name, name) != name}


def of_values(members: Mapping[str, mmdb.Value]) -> dict[str, bytes]:
    """The facts that members of a MaxMind DB's record are, with their types. Empty texts and AS 0 say nothing.

    :raises BadFieldError: if a value cannot be what its key says
    """
    return _without_none((name, _of_value(key_of(name), value)) for name, value in members.items())


def of_texts(texts: Iterable[tuple[str, str]]) -> dict[str, bytes]:
    """The facts that (name, text) pairs of a table are.

    :raises BadFieldError: if a text cannot be what its name says
    """
    return _without_none((name, _of_text(key_of(name), value.strip())) for name, value in texts)


def _without_none(found: Iterable[tuple[str, bytes | None]]) -> dict[str, bytes]:
    """What is known, by keys; of two names for one the first. The organisation of AS 0 is none either."""
    facts: dict[str, bytes] = {}
    is_none = False
    for name, value in found:
        key = key_of(name) or name
        if key == ASN and value == _NO_AS:
            is_none = True
        elif value is not None:
            facts.setdefault(key, value)
    if is_none and ASN not in facts:
        facts.pop(AS_ORGANIZATION, None)
    return facts


_NO_AS = mmdb.uint32(0)


def _of_value(key: str | None, value: mmdb.Value) -> bytes | None:
    plain = value.plain
    if isinstance(plain, str):
        if not plain:
            return None
        return _of_text(key, plain) if key is not None and _FACTS[key].kind != "text" else value.octets
    if key == ASN:
        if type(plain) is not int or not 0 <= plain <= _LARGEST_ASN:
            raise BadFieldError(f"{plain!r:.40} is not an AS number")
        return value.octets if plain else _NO_AS
    if key is not None and _FACTS[key].kind == "flag" and type(plain) is int and plain in (0, 1):
        return mmdb.boolean(bool(plain))
    return value.octets


def _of_text(key: str | None, value: str) -> bytes | None:
    kind = "text" if key is None else _FACTS[key].kind
    if value in _NO_TEXT or (kind != "text" and value.lower() in _NOTHING):
        return None
    return _MADE[kind](value, key or "a value")


def _flag(value: str, name: str) -> bytes:
    found = _FLAGS.get(value.lower())
    if found is None:
        raise BadFieldError(f"{name} is neither true nor false: {value!r:.40}")
    return mmdb.boolean(found)


def _count(value: str, name: str) -> bytes:
    if not (value.isascii() and value.isdecimal() and len(value) < 10):
        raise BadFieldError(f"{name} is not a whole number: {value!r:.40}")
    return mmdb.uint32(int(value))


def _score(value: str, name: str) -> bytes:
    try:
        return mmdb.double(float(value))
    except ValueError:
        raise BadFieldError(f"{name} is not a number: {value!r:.40}") from None


_MADE: dict[_Kind, Callable[[str, str], bytes]] = {
    "asn": lambda value, _: mmdb.uint32(as_number(value)),
    "text": lambda value, name: mmdb.text(text(value, name)),
    "flag": _flag,
    "count": _count,
    "score": _score,
}
