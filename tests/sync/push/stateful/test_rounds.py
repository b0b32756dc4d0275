"""The command that plays the push machine in rounds counts, goes on after a find, and says so."""

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from tests.sync.push.stateful.push_machine import Kind
from tests.sync.push.stateful.rounds import main


class Machine(RuleBasedStateMachine):
    """A model that is wrong for services that honour keys."""

    kind: Kind

    @rule(number=st.integers(0, 1000))
    def step(self, number: int) -> None:
        assert not self.kind.honours_keys or number < 500


def test_a_round_that_finds_something_is_told_and_the_next_one_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--examples", "6", "--each", "3"], Machine) == 1
    lines = capsys.readouterr().out.splitlines()
    rounds = [line for line in lines if "processor time" in line]
    assert "keys ignored: 3 played, 0 finds; keys honoured: 0 played, 0 finds" in rounds[0]
    assert "keys honoured, seed 0: FOUND SOMETHING" in rounds[1]
    assert "keys honoured, seed 1: FOUND SOMETHING" in rounds[3]
    assert "keys ignored: 6 played, 0 finds" in rounds[-1]
    assert any(line.startswith("state.step(number=") for line in lines)


def test_the_push_machine_itself_is_played(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--examples", "1", "--each", "1", "--first-seed", "7"]) == 0
    assert "keys honoured: 1 played, 0 finds" in capsys.readouterr().out
