"""JSON that is kept: as it was sent, and compared by what it says."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from geolookup.service.hotels import records

TEXTS = st.text(st.characters(codec="utf-8"), max_size=5)
NUMBERS = st.sampled_from(["0", "-0", "-0.0", "1", "1.0", "1.00", "1e0", "1E+400", "9" * 30, "0.1", "0.10"])
VALUES = st.recursive(
    st.one_of(TEXTS.map(json.dumps), NUMBERS, st.sampled_from(["true", "false", "null"])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]"),
        st.dictionaries(TEXTS, inner, max_size=3).map(lambda members: written_object(members)),
    ),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.sampled_from(["a", "b", "c", "ä\n"]), VALUES, max_size=4)


def written_object(members: dict[str, str]) -> str:
    return "{ " + " ,\n".join(f"{json.dumps(name)} :\t{value}" for name, value in members.items()) + "}"


def exact(text: str | bytes) -> Any:
    """The value with each number as it is written."""
    return json.loads(text, parse_int=lambda digits: ("number", digits), parse_float=lambda digits: ("number", digits))


@given(OBJECTS)
def test_what_is_kept_says_what_was_sent_to_the_last_digit(members: dict[str, str]) -> None:
    text = written_object(members)
    kept = records.read(text.encode()).text
    assert exact(kept) == exact(text)
    assert list(exact(kept)) == list(members)
    assert "\n" not in kept


@given(OBJECTS, st.sets(st.sampled_from(["a", "b", "c", "x"])))
def test_members_are_left_out_and_the_others_untouched(members: dict[str, str], names: set[str]) -> None:
    kept = records.read(written_object(members).encode()).text
    expected = {name: value for name, value in exact(kept).items() if name not in names}
    assert exact(records.without(kept, names)) == expected


@given(OBJECTS, OBJECTS)
def test_two_texts_are_the_same_where_every_member_is_written_alike(one: dict[str, str], other: dict[str, str]) -> None:
    first, second = (records.read(written_object(members).encode()).text for members in (one, other))
    assert records.same(first, second) == (exact(first) == exact(second))
    backwards = records.read(written_object(dict(reversed(one.items()))).encode()).text
    assert records.same(first, backwards)


def test_a_text_that_looks_like_a_number_is_another_value() -> None:
    for one, other in (("1", '"1"'), ("1", "true"), ("0", "false"), ("[]", "{}"), ('["1"]', "[1]"), ("1", '["1"]')):
        assert not records.same(f'{{"a":{one}}}', f'{{"a":{other}}}')
