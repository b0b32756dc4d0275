"""Values as pages show them."""

import pytest

from geolookup.console.html import shown, with_code

RIYADH = "مكتب الرياض"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"{RIYADH}: 24.7, 46.7", f"\u2068{RIYADH}\u2069: 24.7, 46.7"),
        (f"add 10.0.0.0/8 to {RIYADH} (-3)", f"add 10.0.0.0/8 to \u2068{RIYADH}\u2069 (-3)"),
        ("Łódź office: 51.7", "Łódź office: 51.7"),
        ("\u202eevil", "\\u202eevil"),
    ],
)
def test_a_name_from_right_to_left_leaves_the_numbers_beside_it_in_their_order(text: str, told: str) -> None:
    assert shown(text) == told
    assert str(with_code(text)) == told
