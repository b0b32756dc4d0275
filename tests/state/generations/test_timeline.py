"""Which generation was served when: the steps against a plain list of everything that ever happened."""

from hypothesis import given
from hypothesis import strategies as st

from geolookup.state.generations import recovery
from geolookup.state.generations.recovery import GONE, Step, advanced, by_recency, served_at, served_since


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[int, str, frozenset[int]]]:
    """(generation served, from when on, generations kept by then); what is gone stays gone."""
    found: list[tuple[int, str, frozenset[int]]] = []
    kept: set[int] = set()
    for moment in range(draw(st.integers(1, 12))):
        generation = draw(st.sampled_from(sorted({*kept, 1 + max((g for g, _, _ in found), default=0)})))
        kept.add(generation)
        found.append((generation, f"2026-01-{moment + 1:02d}", frozenset(kept)))
        kept -= draw(st.frozensets(st.sampled_from(sorted(kept)), max_size=2)) - {generation}
    return found


@given(history=histories())
def test_every_moment_has_the_generation_that_was_served_then_as_long_as_it_is_kept(
    history: list[tuple[int, str, frozenset[int]]],
) -> None:
    steps: tuple[Step, ...] = ()
    for generation, moment, kept in history:
        steps = advanced(steps, generation, moment, kept)
    last_kept = history[-1][2]
    assert served_at(steps, "2025-12-31") is None
    for generation, moment, _ in history:
        assert served_at(steps, f"{moment}T12") == (generation if generation in last_kept else GONE)
    expected = list(dict.fromkeys(generation for generation, _, _ in reversed(history) if generation in last_kept))
    assert by_recency(steps) == expected
    assert served_since(steps, history[-1][0]) is not None
    assert len(steps) <= 2 * len(last_kept) * len(history) + 1


def test_what_was_removed_in_a_row_is_one_step() -> None:
    steps: tuple[Step, ...] = ()
    for number in range(1, 50):
        steps = advanced(steps, number, f"2026-01-01T00:{number:02d}", {number - 1})
    assert steps == ((GONE, "2026-01-01T00:01"), (48, "2026-01-01T00:48"), (49, "2026-01-01T00:49"))


def test_going_back_and_forth_for_ever_keeps_it_short() -> None:
    steps: tuple[Step, ...] = ()
    for number in range(1000):
        steps = advanced(steps, 1 + number % 2, f"{number:04d}", {1, 2})
    assert len(steps) == recovery._MOST_STEPS
    assert served_at(steps, "0999x") == 2
    assert served_at(steps, "0000") is None
