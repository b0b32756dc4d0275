"""JSON without `json`, played against `json`."""

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geolookup.base import plainjson
from tests.support.examples import examples

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@examples(50)
@given(values, st.sampled_from([None, 1]), st.booleans())
def test_what_json_writes_is_read_back(value: object, indent: int | None, ascii_only: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    try:
        data = text.encode()
    except UnicodeEncodeError:
        return
    assert plainjson.loads(data) == value


@given(values, st.data())
def test_damaged_json_is_refused_as_json_refuses_it(value: object, data: st.DataObject) -> None:
    text = json.dumps(value)
    at = data.draw(st.integers(0, len(text)))
    damaged = text[:at] + data.draw(st.sampled_from(["", "]", "}", ",", '"', "x", "NaN", "1"])) + text[at + 1 :]
    try:
        expected = json.loads(damaged, parse_constant=lambda name: 1 / 0)
    except (ValueError, ZeroDivisionError):
        with pytest.raises(ValueError):  # noqa: PT011 - the message is the scanner's
            plainjson.loads(damaged.encode())
    else:
        assert plainjson.loads(damaged.encode()) == expected


@pytest.mark.parametrize("data", [b"", b" ", b"{", b"[1] 2", b"\xff", b"[" * 100_000, b"NaN"])
def test_what_is_no_json_is_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - several messages
        plainjson.loads(data)


def test_text_that_is_cut_short_is_a_value_error_where_nobody_has_imported_json() -> None:
    program = (
        "import sys\n"
        "from geolookup.base import plainjson\n"
        "assert 'json' not in sys.modules\n"
        "try:\n"
        '    plainjson.loads(b\'{"version": "1\')\n'
        "except ValueError:\n"
        "    print('refused')\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ended.stdout == "refused\n", ended.stderr
