"""Run the `walagent` command as `python -m walagent`."""

from walagent.cli import main

main(prog_name="walagent")
