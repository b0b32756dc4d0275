"""Text, as the accelerator reads addresses: what it means by each is what the reference parser says."""

from hypothesis import example, given
from hypothesis import strategies as st

from geolookup.model import addresses
from geolookup.model.errors import InvalidAddressError
from tests.index.native.searchers import native, needs_native

DIGITS = st.sampled_from(
    ["0", "1", "9", "10", "99", "100", "199", "255", "256", "260", "300", "999", "01", "00", "1000", ""]
)
GROUPS = st.sampled_from(["0", "1", "f", "FF", "aBc", "ffff", "FFFF", "0000", "00001", "12345", "g", "", "1.2.3.4"])
QUADS = st.lists(DIGITS, min_size=3, max_size=5).map(".".join)
COLONS = st.lists(st.one_of(GROUPS, GROUPS, QUADS), min_size=1, max_size=9).map(":".join)
WRITTEN = st.one_of(
    st.integers(0, 2**32 - 1).map(lambda value: addresses.to_text(4, value)),
    st.integers(0, 2**128 - 1).map(lambda value: addresses.to_text(6, value)),
    st.builds(lambda shift, value: addresses.to_text(6, value << shift), st.integers(0, 96), st.integers(0, 2**32 - 1)),
)


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """An address as it is written, but for a part, or a character or two."""
    text = draw(st.one_of(WRITTEN, QUADS, COLONS))
    if draw(st.booleans()):
        mark = draw(st.sampled_from([".", ":"]))
        parts = text.split(mark)
        parts[draw(st.integers(0, len(parts) - 1))] = draw(DIGITS if mark == "." else GROUPS)
        text = mark.join(parts)
    for _ in range(draw(st.integers(0, 2))):
        place = draw(st.integers(0, len(text)))
        new = draw(st.sampled_from([*"0:.f%/ gG", "::", "\0", "é", "٣", "\ud800", ""]))
        text = text[:place] + new + text[place + draw(st.integers(0, 1)) :]
    return text


@needs_native
@given(text=st.one_of(WRITTEN, QUADS, COLONS, mutated(), st.text(max_size=20)))
@example("::")
@example("1::")
@example("::1")
@example("1:2:3:4:5:6:7::")
@example("::2:3:4:5:6:7:8")
@example("1:2:3:4::5:6:7:8")
@example("1:2:3:4:5:6:7:8::")
@example("1:2:3:4:5:6:7:8:")
@example(":1:2:3:4:5:6:7")
@example("1:2:3:4:5:6:1.2.3.4")
@example("1:2:3:4:5:6:7:1.2.3.4")
@example("::ffff:1.2.3.4")
@example("::ffff:1.2.3.4:5")
@example("::ffff:010.2.3.4")
@example("1.2.3.4\0")
@example("\x001.2.3.4")
@example("1::2::3")
@example("256.1.1.1")
@example("1.1.1.260")
@example("1.1.1000.1")
@example("::1.1.256.1")
@example("::00001")
@example("12345::1")
@example(":::")
@example("fe80::1%eth0")
@example("１.2.3.4")
def test_every_text_means_what_the_reference_says(text: str) -> None:
    assert native is not None
    try:
        family, value = addresses.parse(text)
        expected = family, value >> 64, value & 2**64 - 1
    except InvalidAddressError:
        expected = None
    assert native.parse(text) == expected
    if text.isascii():
        for before, after in (("", ""), ("1.", "1.2.3.4.5.6.7.8.9"), ("", ":" * 16)):
            data = f"{before}{text}{after}".encode()
            assert native.parse_in(data, len(before), len(before) + len(text)) == expected
