"""``completion``: the script that completes commands in a shell."""

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script for a shell.

    \b
    Example: geolookup completion bash > ~/.local/share/bash-completion/completions/geolookup
    """
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(context.find_root().command, {}, "geolookup", "_GEOLOOKUP_COMPLETE").source())
