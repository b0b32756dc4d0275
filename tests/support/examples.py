"""How many examples Hypothesis plays: a few in CI, many times as many with ``--full-sweep``."""

from typing import Any

from hypothesis import settings

#: The profile that conftest.py loads with ``--full-sweep``.
WHOLE = "whole"
#: How many times as many examples as CI the whole of a sweep plays.
TIMES = 20


def examples(count: int, **more: Any) -> settings:
    """The settings of a test that plays ``count`` examples in CI; ``more`` are other settings of Hypothesis.

    Tests that say nothing play Hypothesis's own 100: theirs cost next to nothing.
    """
    return settings(max_examples=count * (TIMES if settings.get_current_profile_name() == WHOLE else 1), **more)
