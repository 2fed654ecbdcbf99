"""`walagent agents schema` and `walagent completion`, which need no database."""

import json

import click
from click.shell_completion import get_completion_class


@click.command("schema")
def schema_() -> None:
    """Print the JSON Schema of agents.yaml, for editors and validators."""
    from walagent.config.schema import json_schema

    click.echo(json.dumps(json_schema(), indent=2, ensure_ascii=False))


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion_(shell: str) -> None:
    """Print the completion script for SHELL.

    To install it, run the line of your shell:

    \b
      bash:  walagent completion bash >> ~/.bashrc
      zsh:   walagent completion zsh >> ~/.zshrc
      fish:  walagent completion fish > ~/.config/fish/completions/walagent.fish
    """  # noqa: D301 - click's mark for lines that are not wrapped
    from walagent.cli import main

    kind = get_completion_class(shell)
    assert kind is not None  # noqa: S101 - click has these three
    script = kind(main, {}, "walagent", "_WALAGENT_COMPLETE").source()
    click.echo(script)
