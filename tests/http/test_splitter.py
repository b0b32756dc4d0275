"""The splitter against ijson, at every chunk size, on sound and on damaged JSON; its bounds; the containers."""

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from geolookup.http.splitter import Splitter
from geolookup.model.errors import UpstreamAnswerError
from geolookup.upstream.decode import RowDecoder, load_array
from geolookup.upstream.listreader import ListReader
from tests.oracle import ijson_list
from tests.support.examples import examples

texts = st.text(alphabet=st.sampled_from('a"\\/{}[],:\u00fc\u20ac\U0001f600\n\x00'), max_size=8)
scalars = st.none() | st.booleans() | st.integers(-(2**130), 2**130) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    scalars | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
blanks = st.sampled_from(["", " ", "\n\t\r "])


@st.composite
def json_lists(draw: st.DrawFn) -> bytes:
    elements = draw(st.lists(values, max_size=5))
    blank = draw(blanks)
    ascii_only = draw(st.booleans())
    written = [
        json.dumps(element, ensure_ascii=ascii_only, indent=draw(st.sampled_from([None, 1]))) for element in elements
    ]
    text = f"{blank}[{blank}" + f"{blank},{blank}".join(written) + f"{blank}]{blank}"
    return text.encode()


@st.composite
def damaged_lists(draw: st.DrawFn) -> bytes:
    text = bytearray(draw(json_lists()))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, max(0, len(text) - 1)))
        action = draw(st.sampled_from(["insert", "delete", "replace", "cut"]))
        # Without what the oracle wrongly takes: a plus before a number, vertical tabs and form feeds between tokens.
        byte = draw(st.sampled_from(b'[]{}",:\\ 01-.eEtfn\x01\xff'))
        if action == "insert":
            text.insert(at, byte)
        elif action == "cut":
            del text[at:]
        elif text and action == "delete":
            del text[at]
        elif text:
            text[at] = byte
    return bytes(text)


def split(text: bytes, size: int) -> list[Any] | None:
    """All elements by way of the splitter, or None where it or the decoder refuses."""
    splitter = Splitter()
    elements: list[Any] = []
    try:
        for start in range(0, len(text), size):
            for piece in splitter.feed(text[start : start + size]):
                assert piece.array == 0 or splitter.is_object
                elements += load_array(piece.text)
        splitter.close()
    except UpstreamAnswerError:
        return None
    return None if splitter.is_object else elements


def plain(value: Any) -> Any:
    """The oracle's decimals as the floats that everybody else reads."""
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, list):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    return value


def sizes(text: bytes) -> list[int]:
    return [*range(1, min(len(text), 70) + 1), len(text) + 1]


@examples(40)
@given(json_lists())
@example(b'["\\\\", "\\\\\\"", {"a\\"]": ["\\\\"]}]')
@example(b"[]")
@example(b" [ ] ")
@example(b'[1,2,{"a":1},3,[4],5]')
def test_the_splitter_reads_what_ijson_reads_at_every_chunk_size(text: bytes) -> None:
    expected = plain(ijson_list.elements(text))
    assert expected is not None
    for size in sizes(text):
        assert split(text, size) == expected


@given(damaged_lists())
@example(b"[1,]")
@example(b'[{"a":1},]')
@example(b'[{"a":1},,{"a":2}]')
@example(b'[{"a":1}{"a":2}]')
@example(b'[,{"a":1}]')
@example(b'[{"a":1}, ]')
@example(b"[{}}")
@example(b"[[}]")
@example(b"[{]}")
@example(b"[1][2]")
@example(b'["a]')
@example(b"[NaN]")
@example(b"[Infinity]")
def test_the_splitter_and_ijson_refuse_the_same_damage_at_every_chunk_size(text: bytes) -> None:
    expected = plain(ijson_list.elements(text))
    for size in sizes(text):
        assert split(text, size) == expected, size


def test_runs_of_backslashes_across_words_and_chunks_escape_as_json_says() -> None:
    for run in range(70):
        text = json.dumps([{"a": "\\" * run + '"', "b": "]"}, 7]).encode()
        for size in (1, 2, 3, 63, 64, 65, 1000):
            assert split(text, size) == json.loads(text)


def read(text: bytes, size: int = 7) -> list[int]:
    """The locids that a reader finds in a text."""
    reader = ListReader(RowDecoder())
    rows = [row for start in range(0, len(text), size) for row in reader.feed(text[start : start + size])]
    return [row.locid for row in rows + reader.close()]


@pytest.mark.parametrize("size", [1, 2, 5, 1000])
@pytest.mark.parametrize(
    ("text", "locids"),
    [
        ('[{"locid":1},{"locid":2}]', [1, 2]),
        ('\ufeff [{"locid":1}]\r\n', [1]),
        ('{"locid":-7,"country":"US","ipblocks":[{"startip":"1.1.1.1","endip":"1.1.1.1"}]}', [-7]),
        ('{"ipblocks":[], "locid":3}', [3]),
        ('{"locid":3, "tags":["a","b"]}', [3]),
        ('{"data":[{"locid":1},{"locid":2}]}', [1, 2]),
        ('{"x":{"y":[{"locid":9}]},"anything":[{"locid":1}],"z":null}', [1]),
        ('{"links":["a",{"b":[1]}],"items":[{"locid":4}],"n":[]}', [4]),
        ('{"items":[]}', []),
        ('{"links":["a"],"items":[ ]}', []),
        ("[]", []),
    ],
)
def test_every_container_is_read(text: str, locids: list[int], size: int) -> None:
    assert read(text.encode(), size) == locids


@pytest.mark.parametrize("size", [1, 2, 5, 1000])
@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "\ufeff",
        "null",
        "7",
        '"x"',
        "<html>",
        "{}",
        '{"a":1}',
        '{"a":["x"]}',
        '{"a":[],"b":[]}',
        '{"a":[{"locid":1}],"b":[{"locid":2}]}',
        '{"locid":1,"a":[{"locid":1}]}',
        '{"a":[{"locid":1}],"locid":1}',
        '{"a":[{"locid":1}}',
        '{"a":[{"locid":1}]',
        '{"a":[{"locid":1}]]',
        '{"a":[{"locid":1},]}',
        '{"a":[{"locid":1}],}',
        '{"a" [{"locid":1}]}',
        '{[{"locid":1}]}',
        '{"a":[{"locid":1}]}x',
        '{"a":[{"locid":1}]}{}',
        '{"a":{"b":[{"locid":1}]}}',
        '[{"locid":1}]x',
        '[{"locid":1}] []',
        '[{"locid":1}}',
        '\ufeff\ufeff[{"locid":1}]',
    ],
)
def test_what_is_no_list_is_refused(text: str, size: int) -> None:
    with pytest.raises(UpstreamAnswerError):
        read(text.encode(), size)


def test_an_object_whose_rows_have_no_locid_is_told_what_is_missing() -> None:
    with pytest.raises(UpstreamAnswerError, match=r"no array in it has an object with a locid \(it has: n, items\)"):
        read(b'{"n":1,"items":[{"id":1,"country":"DE"}]}')
    with pytest.raises(UpstreamAnswerError, match=r"without a list of geolocations \(it has: message\)"):
        read(b'{"message":"hello"}')


def test_an_object_cut_at_any_offset_is_refused() -> None:
    for text in (b'{"n":2,"data":[{"locid":1},{"locid":2}],"m":[]}', b'{"locid":1,"ipblocks":[{"startip":"1.1.1.1"}]}'):
        for end in range(len(text)):
            with pytest.raises(UpstreamAnswerError):
                read(text[:end])


def test_a_member_named_ipblocks_is_recognised_under_any_spelling() -> None:
    text = b'{"locid":5,"\\u0069pblocks" : [{"startip":"1.1.1.1","endip":"1.1.1.2"}]}'
    reader = ListReader(RowDecoder())
    [row] = [*reader.feed(text), *reader.close()]
    assert row.blocks == [(4, 0x01010101, 0x01010102, "1.1.1.1", "1.1.1.2")]


def test_what_stands_before_the_first_geolocation_of_a_wrapped_list_is_rejected_and_counted() -> None:
    decoder = RowDecoder()
    reader = ListReader(decoder)
    rows = [row for byte in b'{"data":[{"x":1},[],{"locid":1}]}' for row in reader.feed(bytes([byte]))]
    assert [row.locid for row in rows + reader.close()] == [1]
    assert (decoder.geolocations_seen, decoder.rejected_geolocations) == (3, 2)
    assert [row.position for row in decoder.rejected] == [0, 1]


def test_nesting_beyond_the_bound_is_refused_before_it_is_decoded() -> None:
    assert Splitter(max_depth=3).feed(b"[[[]]]")
    with pytest.raises(UpstreamAnswerError, match="levels deep"):
        Splitter(max_depth=3).feed(b"[[[[]]]]")
    with pytest.raises(UpstreamAnswerError, match="levels deep"):
        read(b"[" * 1_000_000, 1 << 16)


@pytest.mark.parametrize("start", ['[{"locid":1},{"a":"', '{"a":{"b":"', '{"data":[{"a":"'])
def test_an_element_or_shell_beyond_the_bound_is_refused_while_it_streams(start: str) -> None:
    splitter = Splitter(max_element_bytes=1000)
    splitter.feed(start.encode())
    with pytest.raises(UpstreamAnswerError, match="more than 1000 bytes"):
        list(map(splitter.feed, [b"x" * 100] * 20))


def test_what_was_handed_out_is_not_held() -> None:
    splitter = Splitter(max_element_bytes=100)
    splitter.feed(b"[1")
    for _ in range(1000):
        assert splitter.feed(b',{"a":1}')


@pytest.mark.parametrize("digits", [4301, 100_000])
def test_an_integer_of_thousands_of_digits_is_a_clear_refusal(digits: int) -> None:
    number = b"9" * digits
    for text in (
        b'[{"locid":' + number + b"}]",
        b'{"data":[{"locid":' + number + b"}]}",
        b'{"locid":' + number + b"}",
    ):
        with pytest.raises(UpstreamAnswerError):
            read(text, 4096)


def test_a_message_shows_the_answers_beginning_harmlessly_and_not_more_than_eighty_characters() -> None:
    with pytest.raises(UpstreamAnswerError) as caught:
        read(b"<html>\x1b[31m\xe2\x80\xae" + b"x" * 5000, 10_000)
    message = str(caught.value)
    assert "<html>" in message
    assert "\x1b" not in message
    assert "\u202e" not in message
    assert len(message) < 200
