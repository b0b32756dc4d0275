"""The table of the edits: commands and pages offer exactly these."""

import click

from geolookup.cli.edits.custom import custom
from geolookup.console.pages import edits as pages
from geolookup.state.custom_edits import CREATE, EDITS

ONLY_READ = {"check", "list", "show"}


def test_each_edit_is_a_command_that_can_preview_it() -> None:
    # Other families put their commands into the group as they are imported.
    own = {
        name: each for name, each in custom.commands.items() if each.callback.__module__ == custom.callback.__module__
    }
    commands = {name: command for name, command in own.items() if name not in ONLY_READ}
    assert commands.keys() == {edit.name for edit in EDITS}
    for command in commands.values():
        assert "preview" in {parameter.name for parameter in command.params if isinstance(parameter, click.Option)}


def test_each_edit_is_a_form_in_the_console() -> None:
    assert pages._FORMS.keys() == {edit.name for edit in EDITS} - {CREATE.name}
