"""Text from outside, made fit for logs and terminals."""

import json

from hypothesis import example, given
from hypothesis import strategies as st

from geolookup.base.text import harmless_json


@given(st.text())
@example("\x7f\x80\x85\x9b\u200f\u202e\u2028\u2066\ufeff\U000e0041\U0010ffff")
@example('\ud800 \\u0041 " Zürich 東京')
def test_json_says_the_same_in_printable_characters(text: str) -> None:
    line = harmless_json(json.dumps({"text": text}, ensure_ascii=False))
    assert line.isprintable()
    assert json.loads(line) == {"text": text}
